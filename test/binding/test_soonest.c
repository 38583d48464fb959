/* SPDX-License-Identifier: MIT */

/* uvwheel_fire_soonest: the clients that have been silent longest make room.
 * The model plays its callbacks, and any count (test/model/play_timers.c). */

#include "support.h"

#define TIMERS 400u
#define TICK_MS 10

static test_timer_t waiters[TIMERS];

/* Those that fired, in their order. */
static unsigned order[2 * TIMERS], order_length;

static void note_order(test_timer_t *waiter) {
  ck_assert_uint_lt(order_length, LENGTH(order));
  order[order_length++] = (unsigned)(waiter - waiters);
}

static void open_waiters(const uvwheel_options_t *options) {
  unsigned i;

  open_wheel_with(options);
  test_timer_init_all(waiters, TIMERS);
  order_length = 0;
  fired_in_all = 0;
  for (i = 0; i < TIMERS; i++) {
    waiters[i].then = note_order;
    waiters[i].may_be_early = true;
  }
}

static void start_waiters(unsigned count, uint64_t first_ms, uint64_t step_ms) {
  unsigned i;

  for (i = 0; i < count; i++)
    test_timer_start(&waiters[i], first_ms + i * step_ms, 0);
}

/* That many have fired, each once, and none that waits is due at an earlier
 * tick than one of them. */
static void expect_the_soonest_fired(unsigned count) {
  uint64_t latest_ms = 0, earliest_ms = UINT64_MAX;
  const test_timer_t *waiter;

  ck_assert_uint_eq(order_length, count);
  for (waiter = waiters; waiter < waiters + TIMERS; waiter++) {
    ck_assert_uint_le(waiter->fired, 1);
    if (waiter->fired)
      latest_ms = max_of(latest_ms, fires_at(waiter->due_ms));
    if (uvwheel_timer_is_active(&waiter->base))
      earliest_ms = min_of(earliest_ms, fires_at(waiter->due_ms));
  }
  ck_assert_uint_le(latest_ms, earliest_ms);
  ck_assert_uint_eq(stats_of_wheel().fired_soonest, count);
  verify_wheel();
}

/* The rest fires, each at its tick, and then all have fired once. */
static void expect_the_rest_in_time(unsigned all, uint64_t within_ms) {
  unsigned fired = order_length, i;

  run_for(within_ms);
  ck_assert_uint_eq(order_length, all);
  for (i = fired; i < all; i++)
    ck_assert_uint_eq(waiters[order[i]].fired_ms,
                      fires_at(waiters[order[i]].due_ms));
  for (i = 0; i < all; i++)
    ck_assert_uint_eq(waiters[i].fired, 1);
  ck_assert_uint_eq(stats_of_wheel().fired, fired_in_all);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
}

/* ---- The soonest --------------------------------------------------------- */

static const uvwheel_options_t wheels[] = {
    {.tick_ms = 10, .slots = 64},
    {.tick_ms = 10, .slots = 64, .flags = UVWHEEL_FIFO},
    {.tick_ms = 100, .slots = 512},
    {.tick_ms = 1, .slots = 8},
    {.tick_ms = 1, .slots = 16384},
    {.tick_ms = 1000, .slots = 1, .flags = UVWHEEL_FIFO},
};

/* The first fifty are refreshed. */
static void start_and_refresh_waiters(void) {
  unsigned i;

  for (i = 0; i < TIMERS; i++) {
    test_timer_start(&waiters[i], 6000, 0);
    run_for(1 + i % 20);
  }
  for (i = 0; i < 50; i++)
    test_timer_refresh(&waiters[i]);
}

static void fire_some(const uvwheel_options_t *options, unsigned count) {
  open_waiters(options);
  start_and_refresh_waiters();
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, count), count);
  expect_the_soonest_fired(count);
  expect_the_rest_in_time(TIMERS, 8000);
  close_and_forget_wheel();
}

/* Scenario 24. nginx#437, nginx#456: the peer heard last is closed last. */
START_TEST(the_soonest_fire_now_and_the_rest_in_time) {
  static const unsigned counts[] = {1, 20, 49, 50, 350, 351, 399, 400};
  size_t i;

  for (i = 0; i < LENGTH(counts); i++)
    fire_some(&wheels[_i], counts[i]);
}
END_TEST

static void restart_late(test_timer_t *waiter) {
  note_order(waiter);
  virtual_time_advance_ms(7);
  test_timer_start(waiter, 1000, 0);
}

/* For a server that has no place left: h2o#2932, TANK#62, envoy#43612. */
START_TEST(a_full_wheel_has_room_again) {
  unsigned i;

  open_waiters(&(uvwheel_options_t){.tick_ms = TICK_MS, .max_timers = 100});
  start_waiters(100, 5000, 3);
  for (i = 100; i < TIMERS; i++) {
    ck_assert_int_eq(
        uvwheel_timer_start(&waiters[i].base, on_test_timer, 5000 + 3 * i, 0),
        UV_ENOBUFS);
    ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 1), 1);
    test_timer_start(&waiters[i], 5000 + 3 * i, 0);
    ck_assert_uint_eq(uvwheel_count(&wheel), 100);
    ck_assert_uint_le(order[i - 100], i - 100 + 3); /* of that tick */
  }
  expect_the_soonest_fired(TIMERS - 100);
  waiters[TIMERS - 1].then = restart_late;
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 100), 100);
  ck_assert_uint_eq(uvwheel_count(&wheel), 1);
  ck_assert_uint_eq(stats_of_wheel().turn_max_us, 7000);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(the_soonest_fire_now_and_the_rest_in_time, wheels),
      TEST(a_full_wheel_has_room_again),
  };

  return run_loop_tests("soonest", tests, LENGTH(tests));
}
