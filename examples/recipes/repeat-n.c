/* SPDX-License-Identifier: MIT */

/* A callback that runs a given number of times.
 *
 * Start the timer with a repeat, count in the callback, and stop it there. In
 * its callback a repeating timer is already armed again, so the stop has the
 * last word; the timer may be freed right after it.
 *
 * Each callback comes at the first tick after its time, and the times keep
 * their beat: 400, 800, 1200 ms after the start, however late one was. With
 * uvwheel_timer_set_missed(timer, UVWHEEL_MISSED_DELAY) each interval begins at
 * the previous callback, as in libuv. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <uvwheel.h>

typedef struct repeater_s {
  uvwheel_timer_t timer;
  unsigned left;
} repeater_t;

static uv_loop_t loop;
static uvwheel_t wheel;
static uint64_t start_ms;

static void
on_turn(uvwheel_timer_t *timer)
{
  repeater_t *repeater = timer->data;

  repeater->left--;
  printf("%4" PRIu64 " ms: %u left\n", uv_now(&loop) - start_ms,
         repeater->left);
  if (repeater->left > 0)
    return;
  uvwheel_timer_close(timer);
  free(repeater);
}

/* Calls back after each interval, that many times. */
static void
repeat(unsigned times, uint64_t interval_ms)
{
  repeater_t *repeater = malloc(sizeof(*repeater));

  if (repeater == NULL)
    abort();
  repeater->left = times;
  repeater->timer.data = repeater;
  uvwheel_timer_init(&wheel, &repeater->timer);
  uvwheel_timer_start(&repeater->timer, on_turn, interval_ms, interval_ms);
}

int
main(void)
{
  uvwheel_options_t options = {.tick_ms = 10};

  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, &options) != 0)
    return EXIT_FAILURE;
  start_ms = uv_now(&loop);
  repeat(5, 400);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active */
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
