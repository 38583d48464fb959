/* SPDX-License-Identifier: MIT */

/* "Timers" in the header: timers beside their namesakes of libuv, refresh,
 * close, and what bad input returns. */

#include <stdlib.h>

#include "support.h"

/* ---- The same as uv_timer_t ---------------------------------------------- */

static void start(uvwheel_timer_t *timer, uv_timer_t *model, uint64_t timeout,
                  uint64_t repeat) {
  require(uvwheel_timer_start(timer, on_test_timer, timeout, repeat) ==
          uv_timer_start(model, ignore_uv_timer, timeout, repeat));
}

static void stop(uvwheel_timer_t *timer, uv_timer_t *model, uint64_t unused,
                 uint64_t also_unused) {
  (void)unused, (void)also_unused;
  require(uvwheel_timer_stop(timer) == uv_timer_stop(model));
}

static void again(uvwheel_timer_t *timer, uv_timer_t *model, uint64_t unused,
                  uint64_t also_unused) {
  (void)unused, (void)also_unused;
  require(uvwheel_timer_again(timer) == uv_timer_again(model));
}

static void set_repeat(uvwheel_timer_t *timer, uv_timer_t *model,
                       uint64_t unused, uint64_t repeat) {
  (void)unused;
  uvwheel_timer_set_repeat(timer, repeat);
  uv_timer_set_repeat(model, repeat);
}

/* Starts use the time that the loop has cached. */
static void advance(uvwheel_timer_t *timer, uv_timer_t *model, uint64_t ms,
                    uint64_t update) {
  (void)timer, (void)model;
  virtual_time_advance_ms(ms);
  if (update)
    uv_update_time(&loop);
}

/* Each does the same to both timers, which must answer alike. */
static const struct {
  void (*act)(uvwheel_timer_t *, uv_timer_t *, uint64_t, uint64_t);
  uint64_t first, second; /* what it does that with */
} operations[] = {
    {start, 5, 0},       {start, 5, 3},      {start, 0, 0},
    {stop, 0, 0},        {again, 0, 0},      {start, UINT64_MAX, UINT64_MAX},
    {advance, 1, false}, {advance, 1, true}, {set_repeat, 0, 7},
    {set_repeat, 0, 0},
};

#define OPERATIONS ((int)LENGTH(operations))

static void operate(int which, uvwheel_timer_t *timer, uv_timer_t *model) {
  operations[which].act(timer, model, operations[which].first,
                        operations[which].second);
}

static void expect_alike(const uvwheel_timer_t *timer,
                         const uv_timer_t *model) {
  int active = uv_is_active((const uv_handle_t *)model);

  require(uvwheel_timer_is_active(timer) == (active != 0));
  require(uvwheel_timer_get_repeat(timer) == uv_timer_get_repeat(model));
  require(uvwheel_timer_get_due_in(timer) ==
          (active ? uv_timer_get_due_in(model) : 0));
}

/* libuv#1068, uvloop#29. Each sequence of five operations, with the same
 * results on both. */
START_TEST(every_function_means_what_its_namesake_means) {
  static uvwheel_timer_t timer;
  static uv_timer_t model;
  int sequence, rest, step;

  open_wheel(1, 8);
  ck_assert_int_eq(uv_timer_init(&loop, &model), 0);
  for (sequence = 0;
       sequence < OPERATIONS * OPERATIONS * OPERATIONS * OPERATIONS;
       sequence++) {
    require(uvwheel_timer_init(&wheel, &timer) == 0);
    model.timer_cb = NULL; /* as it is before the first start */
    uv_timer_set_repeat(&model, 0);
    operate(_i, &timer, &model);
    for (step = 0, rest = sequence; step < 4; step++, rest /= OPERATIONS) {
      operate(rest % OPERATIONS, &timer, &model);
      expect_alike(&timer, &model);
    }
    require(uvwheel_timer_stop(&timer) == uv_timer_stop(&model));
  }
}
END_TEST

/* ---- Refresh ------------------------------------------------------------- */

static void expect_due_in(test_timer_t *timer, uint64_t ms) {
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer->base), ms);
  timer->due_ms = uv_now(&loop) + ms;
}

/* P2. Scenario 14. Also to an earlier time. */
START_TEST(refresh_takes_the_repeat_if_there_is_one_else_the_timeout) {
  static test_timer_t timer;

  open_wheel(100, 8);
  begin_test_timer(&timer, 500, 0);
  advance_loop_ms(40);
  ck_assert_int_eq(uvwheel_timer_refresh(&timer.base), 0);
  expect_due_in(&timer, 500);
  test_timer_start(&timer, 500, 300);
  advance_loop_ms(40);
  ck_assert_int_eq(uvwheel_timer_refresh(&timer.base), 0);
  expect_due_in(&timer, 300);
  uvwheel_timer_set_repeat(&timer.base, 700);
  expect_due_in(&timer, 300); /* when it is due now does not change */
  ck_assert_int_eq(uvwheel_timer_refresh(&timer.base), 0);
  expect_due_in(&timer, 700);
  uvwheel_timer_set_repeat(&timer.base, 0);
  ck_assert_int_eq(uvwheel_timer_refresh(&timer.base), 0);
  expect_due_in(&timer, 500);
  run_for(1000);
  ck_assert_uint_eq(timer.fired, 1);
  /* A start of an active timer replaces its callback. */
  ck_assert_int_eq(uvwheel_timer_start(&timer.base, count_timer, 4000, 0), 0);
  test_timer_start(&timer, 5000, 0);
  uvwheel_timer_set_repeat(&timer.base, 300);
  test_timer_refresh(&timer);
  run_for(fires_at(timer.due_ms) - uv_now(&loop));
  ck_assert_uint_eq(timer.fired, 2);
}
END_TEST

/* ---- Expect -------------------------------------------------------------- */

typedef int (*expect_t)(uvwheel_timer_t *, uvwheel_timer_cb, uint64_t);

static int start_and_refresh(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                             uint64_t timeout) {
  int error = uvwheel_timer_start(timer, cb, timeout, 0);

  return error != 0 ? error : uvwheel_timer_refresh(timer);
}

#define ACTS 10

static int act(int which, uvwheel_timer_t *timer, expect_t expect) {
  return which == 0   ? expect(timer, on_test_timer, 5)
         : which == 1 ? expect(timer, count_timer, UINT64_MAX)
         : which == 2 ? uvwheel_timer_start(timer, on_test_timer, 7, 0)
         : which == 3 ? uvwheel_timer_start(timer, on_test_timer, 7, 3)
         : which == 4 ? uvwheel_timer_again(timer)
         : which == 5 ? uvwheel_timer_refresh(timer)
         : which == 6 ? uvwheel_timer_stop(timer)
         : which == 7 ? uvwheel_timer_set_missed(timer, UVWHEEL_MISSED_BURST)
         : which == 8 ? (uvwheel_timer_unref(timer), 0)
                      : (uvwheel_timer_set_repeat(timer, 4), 0);
}

/* Each sequence of four acts, with expect before the last. All of the timers is
 * alike, private fields as well, but for their neighbours. */
START_TEST(expect_is_a_start_without_a_repeat_and_a_refresh) {
  static uvwheel_timer_t timer, model;
  int sequence, rest, step, which;

  open_wheel_with(
      &(uvwheel_options_t){.tick_ms = 1, .flags = slot_kinds[_i].flags});
  for (sequence = 0; sequence < ACTS * ACTS * ACTS; sequence++) {
    require(uvwheel_timer_init(&wheel, &timer) == 0);
    require(uvwheel_timer_init(&wheel, &model) == 0);
    for (step = 0, rest = sequence; step < 4; step++) {
      which = step == 2 ? 0 : rest % ACTS;
      rest /= step == 2 ? 1 : ACTS;
      require(act(which, &timer, uvwheel_timer_expect) ==
              act(which, &model, start_and_refresh));
      require(memcmp(&timer.wheel_and_flags, &model.wheel_and_flags,
                     sizeof timer - sizeof timer.entry) == 0);
      require(uvwheel_timer_get_due_in(&timer) ==
              uvwheel_timer_get_due_in(&model));
      if (rest % 2)
        advance_loop_ms(1);
    }
    uvwheel_timer_close(&timer);
    uvwheel_timer_close(&model);
  }
}
END_TEST

static test_timer_t expected[3];

static void fired_last(test_timer_t *timer) {
  ck_assert_uint_eq(fired_in_all, 2);
  ck_assert_ptr_eq(timer, &expected[0]);
}

/* A restart goes to the end of the queue of its tick. */
START_TEST(expect_fails_and_restarts_as_a_start_does) {
  open_wheel_with(&(uvwheel_options_t){.max_timers = 2, .flags = UVWHEEL_FIFO});
  test_timer_init_all(expected, LENGTH(expected));
  ck_assert_int_eq(uvwheel_timer_expect(&expected[0].base, NULL, 5), UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_is_active(&expected[0].base), 0);
  test_timer_expect(&expected[0], 300);
  test_timer_expect(&expected[1], 300);
  ck_assert_int_eq(uvwheel_timer_expect(&expected[2].base, on_test_timer, 5),
                   UV_ENOBUFS);
  ck_assert_int_eq(uvwheel_timer_is_active(&expected[2].base), 0);
  test_timer_expect(&expected[0], 300);
  expected[0].then = fired_last;
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, 2);
}
END_TEST

/* ---- Closed timers ------------------------------------------------------- */

/* A late write callback that starts the timer of a connection which is about to
 * be freed (xSocks). The timer is closed while idle, active, or stopped. */
START_TEST(a_closed_timer_cannot_be_started_until_it_is_initialised) {
  uvwheel_timer_t zeroed = {.wheel_and_flags = 0};
  static test_timer_t timer;

  uvwheel_timer_close(NULL);
  uvwheel_timer_close(&zeroed);
  ck_assert_uint_eq(zeroed.wheel_and_flags, 0);
  open_wheel(100, 8);
  test_timer_init(&timer);
  if (_i > 0)
    test_timer_start(&timer, 50, 200);
  if (_i > 1)
    test_timer_stop(&timer);
  uvwheel_timer_close(&timer.base);
  uvwheel_timer_close(&timer.base);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer.base), 0);
  ck_assert_int_eq(uvwheel_timer_start(&timer.base, on_test_timer, 1, 1),
                   UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_expect(&timer.base, on_test_timer, 1),
                   UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_again(&timer.base), UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_refresh(&timer.base), UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_stop(&timer.base), 0);
  ck_assert_ptr_null(uvwheel_timer_get_wheel(&timer.base));
  uvwheel_timer_set_repeat(&timer.base, 5);
  uvwheel_timer_unref(&timer.base);
  ck_assert_int_eq(uvwheel_timer_start(&timer.base, on_test_timer, 1, 1),
                   UV_EINVAL);
  run_for(1000);
  ck_assert_uint_eq(timer.fired, 0);
  test_timer_init(&timer);
  expect_punctual(&timer, 50);
}
END_TEST

/* ---- Bad input ----------------------------------------------------------- */

/* A build with checks names a timer that is all zeros (test_checks.c). */
static void expect_not_started(uvwheel_timer_t *timer) {
#ifdef UVWHEEL_CHECKS
  if (timer != NULL)
    return;
#endif
  ck_assert_int_eq(uvwheel_timer_start(timer, on_test_timer, 1, 1), UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_expect(timer, on_test_timer, 1), UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_again(timer), UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_refresh(timer), UV_EINVAL);
}

static void expect_no_timer(uvwheel_timer_t *timer) {
  expect_not_started(timer);
  ck_assert_int_eq(uvwheel_timer_stop(timer), UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_set_missed(timer, UVWHEEL_MISSED_SKIP),
                   UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_is_active(timer), 0);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(timer), 0);
  ck_assert_uint_eq(uvwheel_timer_get_repeat(timer), 0);
  ck_assert_uint_eq(uvwheel_timer_get_rounds(timer), 0);
  ck_assert_ptr_null(uvwheel_timer_get_wheel(timer));
  ck_assert_int_eq(uvwheel_timer_has_ref(timer), 0);
  uvwheel_timer_ref(timer);
  uvwheel_timer_unref(timer);
  uvwheel_timer_set_repeat(timer, 5);
  uvwheel_timer_close(timer);
}

START_TEST(no_timer_is_invalid) {
  uvwheel_timer_t zeroed = {.cb = NULL};
  static uvwheel_timer_t before;

  open_wheel(100, 8);
  ck_assert_int_eq(uvwheel_timer_init(&wheel, NULL), UV_EINVAL);
  expect_no_timer(NULL);
  expect_no_timer(&zeroed);
  ck_assert_mem_eq(&zeroed, &before, sizeof before);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
}
END_TEST

/* A program that ignores results. */
START_TEST(a_timer_whose_init_has_failed_is_none) {
  uvwheel_t zeroed = {.state = NULL}, *const wheels[] = {NULL, &zeroed, &wheel};
  uvwheel_timer_t timer, *uninitialised = malloc(sizeof timer);
  size_t i;

  open_wheel(100, 8);
  uvwheel_close(&wheel, NULL);
  for (i = 0; i < LENGTH(wheels); i++) {
    memset(&timer, 0xA5, sizeof timer);
    ck_assert_int_eq(uvwheel_timer_init(wheels[i], &timer), UV_EINVAL);
    expect_no_timer(&timer);
  }
  run_for(1000);
  ck_assert_ptr_nonnull(uninitialised); /* nothing reads it, says valgrind */
  ck_assert_int_eq(uvwheel_timer_init(&wheel, uninitialised), UV_EINVAL);
  expect_no_timer(uninitialised);
  free(uninitialised);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      {every_function_means_what_its_namesake_means, 0, OPERATIONS},
      TEST(refresh_takes_the_repeat_if_there_is_one_else_the_timeout),
      {a_closed_timer_cannot_be_started_until_it_is_initialised, 0, 3},
      EACH(expect_is_a_start_without_a_repeat_and_a_refresh, slot_kinds),
      TEST(expect_fails_and_restarts_as_a_start_does),
      TEST(no_timer_is_invalid),
      TEST(a_timer_whose_init_has_failed_is_none),
  };

  return run_loop_tests("timers_api", tests, LENGTH(tests));
}
