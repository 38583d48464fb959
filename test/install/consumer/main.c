/* SPDX-License-Identifier: MIT */

/* C and C++: one timer on a loop, from init to close. */

#include <uvwheel.h>

#include <string.h>

static void on_timer(uvwheel_timer_t *timer) {
  *(int *)timer->data += 1;
}

int main(void) {
  uvwheel_options_t options;
  uvwheel_t wheel;
  uvwheel_timer_t timer;
  uv_loop_t loop;
  int fired = 0;

  memset(&options, 0, sizeof options);
  options.tick_ms = 1;
  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, &options) != 0 ||
      uvwheel_timer_init(&wheel, &timer) != 0)
    return 1;
  timer.data = &fired;
  if (uvwheel_timer_start(&timer, on_timer, 1, 0) != 0)
    return 1;
  uv_run(&loop, UV_RUN_DEFAULT);
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  return fired != 1 || uv_loop_close(&loop) != 0;
}
