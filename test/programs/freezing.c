/* SPDX-License-Identifier: MIT */

/* The loop of a recipe is held up once, if the environment says so: with
 * FREEZE="500 1000" from the 500th ms for 1000 ms. */

#include <stdio.h>
#include <stdlib.h>

#include <uvwheel.h>

int __real_uvwheel_init(uv_loop_t *loop, uvwheel_t *wheel,
                        const uvwheel_options_t *options);
int __wrap_uvwheel_init(uv_loop_t *loop, uvwheel_t *wheel,
                        const uvwheel_options_t *options);

static uv_timer_t timer;
static unsigned begin_ms, length_ms;

static void on_freeze(uv_timer_t *expired) {
  uv_sleep(length_ms);
  uv_close((uv_handle_t *)expired, NULL);
}

int __wrap_uvwheel_init(uv_loop_t *loop, uvwheel_t *wheel,
                        const uvwheel_options_t *options) {
  const char *freeze = getenv("FREEZE");

  if (freeze != NULL && sscanf(freeze, "%u %u", &begin_ms, &length_ms) == 2) {
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, on_freeze, begin_ms, 0);
  }
  return __real_uvwheel_init(loop, wheel, options);
}
