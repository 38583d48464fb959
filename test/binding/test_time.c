/* SPDX-License-Identifier: MIT */

/* When timers fire, on a loop in virtual time (P1, P4, P6, P10).
 * test_time_coarse.c has another clock. */

#include "support.h"

/* ---- When a timer fires -------------------------------------------------- */

static const uint64_t ticks_ms[] = {1, 3, 10, 100};

/* P1. From each phase of the tick; with 4 slots timeouts cross many rounds. */
START_TEST(a_timer_fires_exactly_at_the_first_tick_after_it_is_due) {
  static const uint64_t timeouts[] = {0,   1,   2,   3,   9,   10,  11,  12,
                                      39,  40,  41,  99,  100, 101, 299, 300,
                                      301, 399, 400, 401, 799, 800, 801, 5000};
  static test_timer_t timer;
  uint64_t phase;
  size_t i;

  open_wheel(ticks_ms[_i], 4);
  test_timer_init(&timer);
  for (phase = 0; phase < ticks_ms[_i]; phase += 1 + ticks_ms[_i] / 12)
    for (i = 0; i < LENGTH(timeouts); i++) {
      run_for(1);
      expect_punctual(&timer, timeouts[i]);
    }
}
END_TEST

/* ---- Years --------------------------------------------------------------- */

#define DAY_MS UINT64_C(86400000)

/* Timers wait for a time: when the number of the tick gets one bit more, and
 * after years. */
static const struct {
  uint64_t tick_ms;
  uint64_t at_tick;
} long_lives[] = {
    {1, UINT64_C(1) << 32},   {7, UINT64_C(1) << 32},
    {100, UINT64_C(1) << 32}, {1, UINT64_C(1) << 33},
    {10, UINT64_C(1) << 34},  {10, 12 * DAY_MS / 10},
    {10, INT32_MAX / 10 + 1}, {10, UINT32_MAX / 10 + 1},
    {10, 3653 * DAY_MS / 10},
#ifndef _WIN32 /* whose clock cannot be set so far */
    {1, UINT64_C(1) << 40},
#endif
};

/* P1, P10. Scenario 11. tokio#8334. */
START_TEST(years_of_uptime_make_no_timer_early_or_late) {
  uint64_t tick_ms = long_lives[_i].tick_ms;
  uint64_t at_ms = long_lives[_i].at_tick * tick_ms;
  static test_timer_t around[3], timer;
  unsigned i;

  open_wheel(tick_ms, 8);
  test_timer_init(&timer);
  for (i = 0; i < 3; i++)
    begin_test_timer(&around[i], at_ms + i * tick_ms - tick_ms - START_MS, 0);
  run_for(at_ms - 20 * tick_ms - START_MS);
  while (uv_now(&loop) < at_ms + 20 * tick_ms)
    expect_punctual(&timer, uv_now(&loop) % (16 * tick_ms));
  for (i = 0; i < 3; i++)
    ck_assert_uint_eq(around[i].fired_ms, at_ms + i * tick_ms);
  rewind_clock();
}
END_TEST

/* ---- Order --------------------------------------------------------------- */

static unsigned order[100], order_length;
static unsigned model_order[100], model_order_length;

static void note_order(test_timer_t *timer) {
  order[order_length++] = *(unsigned *)timer->arg;
}

static void note_model_order(uv_timer_t *model) {
  model_order[model_order_length++] = *(unsigned *)model->data;
}

/* P4. Timers never refreshed, with UVWHEEL_FIFO and tick_ms = 1. */
START_TEST(fifo_with_a_tick_of_1_ms_is_libuv_s_own_order) {
  static test_timer_t timers[100];
  static uv_timer_t models[100];
  static unsigned numbers[100];
  unsigned i;

  order_length = 0;
  open_wheel_with(
      &(uvwheel_options_t){.tick_ms = 1, .slots = 4, .flags = UVWHEEL_FIFO});
  for (i = 0; i < 100; i++) {
    uint64_t timeout = i * 37 % 11;
    numbers[i] = i;
    begin_test_timer(&timers[i], timeout, 0);
    timers[i].then = note_order;
    timers[i].arg = &numbers[i];
    begin_uv_timer(&models[i], note_model_order, timeout, 0);
    models[i].data = &numbers[i];
    if (i % 3 == 0) { /* restarts go to the end of the queue */
      test_timer_start(&timers[i / 2], timeout, 0);
      uv_timer_start(&models[i / 2], note_model_order, timeout, 0);
    }
  }
  run_for(50);
  ck_assert_uint_eq(order_length, 100);
  ck_assert_uint_eq(model_order_length, 100);
  ck_assert_mem_eq(order, model_order, sizeof order);
}
END_TEST

/* ---- As a uv_timer_t does ------------------------------------------------ */

/* On Windows nothing tells that the loop is quiet. */
#define POLLS_MORE (uv_backend_fd(&loop) < 0 ? 1u : 0u)

/* How a program that drives its loop by hand comes to a timer: how much of its
 * time has passed when uv_run is called. */
static const struct {
  const char *name;
  uv_run_mode mode;
  uint64_t timeout;
  uint64_t late_ms; /* UINT64_MAX: it is ahead */
} calls[] = {
    {"ONCE, ahead", UV_RUN_ONCE, 50, UINT64_MAX},
    {"ONCE, far ahead", UV_RUN_ONCE, 50000, UINT64_MAX},
    {"ONCE, timeout 0", UV_RUN_ONCE, 0, UINT64_MAX},
    {"ONCE, on time", UV_RUN_ONCE, 50, 0},
    {"ONCE, overdue", UV_RUN_ONCE, 50, 20},
    {"NOWAIT, on time", UV_RUN_NOWAIT, 50, 0},
    {"NOWAIT, overdue", UV_RUN_NOWAIT, 50, 20},
};

/* P6. Scenario 37. With each tick. */
START_TEST(one_uv_run_comes_to_a_timer) {
  const char *name = calls[_i].name;
  static test_timer_t timer;
  size_t i;

  for (i = 0; i < LENGTH(ticks_ms); i++) {
    uv_update_time(&loop);
    open_wheel(ticks_ms[i], 8);
    begin_test_timer(&timer, calls[_i].timeout, 0);
    if (calls[_i].late_ms != UINT64_MAX)
      virtual_time_advance_ms(fires_at(timer.due_ms) - uv_now(&loop) +
                              calls[_i].late_ms);
    uv_update_time(&loop); /* since 1.45 ONCE sleeps by the time before */
    uv_run(&loop, calls[_i].mode);
    if (POLLS_MORE > 0)
      uv_run(&loop, UV_RUN_NOWAIT);
    require_in(name, timer.fired == 1);
    close_and_forget_wheel();
  }
}
END_TEST

/* What each call of a program takes beside its loop, and how often a client
 * comes. */
static const struct {
  uint64_t tick_ms;
  uint64_t takes_ms;
  uint64_t every_ms;
} by_hand[] = {{1, 0, 0},    {10, 0, 0},   {100, 0, 0},   {1000, 0, 0},
               {1, 20, 0},   {10, 20, 0},  {100, 200, 0}, {1000, 200, 0},
               {10, 0, 700}, {100, 0, 500}};

static const uv_run_mode modes[] = {UV_RUN_NOWAIT, UV_RUN_ONCE};

static void take_2_ms(uv_handle_t *unused) {
  (void)unused;
  virtual_time_advance_ms(2);
}

/* Its connection is closed at once. */
static void on_client(uv_timer_t *unused) {
  static uv_idle_t connection;

  (void)unused;
  ck_assert_int_eq(uv_idle_init(&loop, &connection), 0);
  uv_close((uv_handle_t *)&connection, take_2_ms);
}

/* P6. Scenarios 31 and 58. The program sleeps on the loop's descriptor for as
 * long as the loop says, does something else, and calls uv_run. */
START_TEST(a_program_that_drives_the_loop_by_hand_has_no_stalls) {
  uv_run_mode mode = modes[_i % 2];
  uint64_t takes_ms = by_hand[_i / 2].takes_ms, runs = 0, late_ms;
  uint64_t every_ms = by_hand[_i / 2].every_ms;
  static uv_timer_t clients;
  static test_timer_t timers[40];
  size_t i;

  open_wheel(by_hand[_i / 2].tick_ms, 512);
  for (i = 0; i < LENGTH(timers); i++)
    begin_test_timer(&timers[i], 77 * i * i, 0);
  if (every_ms != 0)
    begin_uv_timer(&clients, on_client, every_ms, every_ms);
  for (; uvwheel_count(&wheel) > 0; runs++) {
    if (every_ms == 0)
      ck_assert_uint_le(runs, (5 + POLLS_MORE) * LENGTH(timers));
    ck_assert_int_ge(uv_backend_timeout(&loop), 0);
    virtual_time_advance_ms((uint64_t)uv_backend_timeout(&loop) + takes_ms);
    /* ONCE sleeps by the time before, since 1.45; see docs/platforms.md. */
    if (mode == UV_RUN_ONCE || POLLS_MORE > 0)
      uv_update_time(&loop);
    uv_run(&loop, mode);
  }
  for (i = 0; i < LENGTH(timers); i++) {
    late_ms = timers[i].fired_ms - fires_at(timers[i].due_ms);
    ck_assert_msg(late_ms <= takes_ms * (1 + POLLS_MORE) + 2, "%d: %d ms",
                  (int)i, (int)late_ms);
  }
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
}
END_TEST

/* ---- Beside a uv_timer_t ------------------------------------------------- */

static uv_timer_t keeper;

static void refresh_kept(uv_timer_t *timer) {
  test_timer_refresh(timer->data);
}

static const struct {
  const char *name;
  bool is_in_io; /* else between iterations */
  bool updates;
} latenesses[] = {
    {"between iterations", false, false},
    {"in I/O", true, false},
    {"in I/O that updates the time", true, true},
};

static uint64_t late_in_io_ms;

static void block_in_io(uv_async_t *async) {
  virtual_time_advance_ms(late_in_io_ms);
  if (async->data != NULL)
    uv_update_time(&loop);
  uv_close((uv_handle_t *)async, NULL);
}

static void be_late(int row, uint64_t ms) {
  static uv_async_t async;

  if (!latenesses[row].is_in_io) {
    virtual_time_advance_ms(ms);
    return;
  }
  late_in_io_ms = ms;
  ck_assert_int_eq(uv_async_init(&loop, &async, block_in_io), 0);
  async.data = latenesses[row].updates ? &async : NULL;
  ck_assert_int_eq(uv_async_send(&async), 0);
}

/* Scenario 38. It is due a millisecond before the tick of a timer of the wheel,
 * which it refreshes. */
START_TEST(a_uv_timer_that_was_due_before_is_never_overtaken) {
  static test_timer_t timer;
  uint64_t late_ms, wait_ms;

  open_wheel(10, 8);
  test_timer_init(&timer);
  ck_assert_int_eq(uv_timer_init(&loop, &keeper), 0);
  keeper.data = &timer;
  for (late_ms = 1; late_ms <= 250; late_ms++) {
    uv_update_time(&loop);
    test_timer_start(&timer, 1000, 0);
    wait_ms = fires_at(timer.due_ms) - uv_now(&loop);
    ck_assert_int_eq(uv_timer_start(&keeper, refresh_kept, wait_ms - 1, 0), 0);
    run_for(wait_ms - 10);
    be_late(_i, 10 + late_ms);
    run_for(400);
    require_in(latenesses[_i].name, timer.fired == 0);
    test_timer_stop(&timer);
  }
}
END_TEST

/* ---- Timers of the loop beside it ---------------------------------------- */

static test_timer_t beside[60];
static unsigned uv_fired;

static void count_uv_timer(uv_timer_t *timer) {
  (void)timer;
  uv_fired++;
}

static void expect_those_before(test_timer_t *timer) {
  ck_assert_uint_gt(uv_fired, (size_t)(timer - beside));
  if (timer == &beside[10])
    virtual_time_advance_ms(UVWHEEL_DEFAULT_TURN_MS);
}

static void block_before_poll(uv_prepare_t *prepare) {
  (void)prepare;
  virtual_time_advance_ms(20);
}

/* Scenario 38. Each timer of the wheel is due with one of the loop. One turn is
 * cut. */
START_TEST(in_late_iterations_no_timer_overtakes_one_of_the_loop) {
  static uv_timer_t uv_timers[LENGTH(beside)];
  static uv_prepare_t prepare;
  size_t i;

  open_wheel_without_stalls(1, 64);
  for (i = 0; i < LENGTH(beside); i++) {
    begin_test_timer(&beside[i], 10 + i, 0);
    beside[i].then = expect_those_before;
    begin_uv_timer(&uv_timers[i], count_uv_timer, 10 + i, 0);
  }
  begin_prepare(&prepare, block_before_poll);
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, LENGTH(beside));
  ck_assert_uint_eq(stats_of_wheel().turns_cut, 1);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(a_timer_fires_exactly_at_the_first_tick_after_it_is_due, ticks_ms),
      EACH(years_of_uptime_make_no_timer_early_or_late, long_lives),
      TEST(fifo_with_a_tick_of_1_ms_is_libuv_s_own_order),
      EACH(one_uv_run_comes_to_a_timer, calls),
      {a_program_that_drives_the_loop_by_hand_has_no_stalls, 0,
       2 * LENGTH(by_hand)},
      EACH(a_uv_timer_that_was_due_before_is_never_overtaken, latenesses),
      TEST(in_late_iterations_no_timer_overtakes_one_of_the_loop),
  };

  return run_loop_tests("time", tests, LENGTH(tests));
}
