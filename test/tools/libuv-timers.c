/* SPDX-License-Identifier: MIT */

/* The program of libuv's own timer tests: `timers NAME` runs one of them. */

#define LIBUV_TIMERS_ITSELF
#include "libuv-timers.h"

#include <stdlib.h>
#include <string.h>

#define MOST_TIMERS 32

static uvwheel_t wheel;
static uvwheel_timer_t *timers[MOST_TIMERS];
static unsigned timer_count;

static int
is_timer(const void *handle)
{
  unsigned i;

  for (i = 0; i < timer_count; i++)
    if (timers[i] == handle)
      return 1;
  return 0;
}

/* The order of libuv's own timers, by its own millisecond. */
static void
init_wheel(uv_loop_t *loop)
{
  const uvwheel_options_t options = {.tick_ms = 1, .flags = UVWHEEL_FIFO};

  if (uvwheel_init(loop, &wheel, &options) != 0)
    abort();
}

int
map_init(uv_loop_t *loop, uvwheel_timer_t *timer)
{
  if (timer_count == 0)
    init_wheel(loop);
  if (timer_count == MOST_TIMERS)
    abort();
  timers[timer_count++] = timer;
  return uvwheel_timer_init(&wheel, timer);
}

int
map_is_active(const uv_handle_t *handle)
{
  if (!is_timer(handle))
    return uv_is_active(handle);
  return uvwheel_timer_is_active((const uvwheel_timer_t *)(const void *)handle);
}

void
map_unref(uv_handle_t *handle)
{
  if (is_timer(handle))
    uvwheel_timer_unref((uvwheel_timer_t *)(void *)handle);
  else
    uv_unref(handle);
}

/* Stands for a timer that is closed, until its callback. */
typedef struct closing_s {
  uv_idle_t stand_in;
  uv_handle_t *timer;
  uv_close_cb cb;
} closing_t;

static void
on_closed(uv_handle_t *stand_in)
{
  closing_t *closing = (closing_t *)stand_in;

  closing->cb(closing->timer);
  free(closing);
}

void
map_close(uv_handle_t *handle, uv_close_cb cb)
{
  closing_t *closing;

  if (!is_timer(handle)) {
    uv_close(handle, cb);
    return;
  }
  uvwheel_timer_close((uvwheel_timer_t *)(void *)handle);
  if (cb == NULL)
    return;
  closing = malloc(sizeof *closing);
  if (closing == NULL || uv_idle_init(wheel.loop, &closing->stand_in) != 0)
    abort();
  closing->timer = handle;
  closing->cb = cb;
  uv_close((uv_handle_t *)&closing->stand_in, on_closed);
}

/* libuv-timers.list has a line TEST(name) for each. */
#define TEST(name) int run_test_##name(void);
#include "libuv-timers.list"
#undef TEST

#define TEST(name) {#name, run_test_##name},
static const struct {
  const char *name;
  int (*run)(void);
} tests[] = {
#include "libuv-timers.list"
};

int
main(int argc, char **argv)
{
  size_t i;

  for (i = 0; i < sizeof tests / sizeof *tests; i++)
    if (argc == 2 && strcmp(argv[1], tests[i].name) == 0)
      return tests[i].run();
  return EXIT_FAILURE;
}
