/* SPDX-License-Identifier: MIT */

/* How the wheel notices a stall (P6): it runs late, at a tick or at a check-in
 * half-way to it. test_put_back.c has what a stall does. */

#include "insides.h"
#include "p6.h"
#include "support.h"

#define DAY_MS UINT64_C(86400000)

static test_timer_t timer, other;

/* ---- Late ---------------------------------------------------------------- */

static const struct {
  uint32_t option;
  uint64_t stall_ms;
} thresholds[] = {{0, 250},   {1, 1},     {2, 2},
                  {250, 250}, {251, 251}, {5000, 5000}};

static void take_9_s(test_timer_t *fired) {
  (void)fired;
  virtual_time_advance_ms(9000);
}

/* P6 */
START_TEST(a_wheel_that_runs_late_by_more_than_stall_ms_has_a_stall) {
  uint64_t stall_ms = thresholds[_i].stall_ms;

  open_wheel_with(&(uvwheel_options_t){
      .tick_ms = 10, .slots = 64, .stall_ms = thresholds[_i].option});
  begin_heard_timer(&timer, 1000, 0);
  come_late(timer.due_ms, stall_ms);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  ck_assert_uint_eq(timer.fired_ms, fires_at(timer.due_ms) + stall_ms);
  begin_heard_timer(&timer, 1000, 0);
  come_late(timer.due_ms, stall_ms + 20000);
  test_timer_refresh(&timer);
  come_late(timer.due_ms, stall_ms + 1);
  ck_assert_uint_eq(stats_of_wheel().stalls, 2);
  ck_assert_uint_eq(stats_of_wheel().stall_max_ms, stall_ms + 20000);
  ck_assert_uint_eq(stats_of_wheel().stall_sum_ms, 2 * stall_ms + 20001);
  ck_assert_uint_eq(stats_of_wheel().put_back, 2);
  test_timer_stop(&timer);
  virtual_time_advance_ms(9000); /* while the wheel is empty */
  expect_punctual(&timer, 100);
  timer.then = take_9_s; /* by which it has become empty */
  test_timer_start(&timer, 100, 0);
  while (uvwheel_count(&wheel) != 0)
    uv_run(&loop, UV_RUN_ONCE);
  ck_assert_int_eq(uv_loop_alive(&loop), 0);
  ck_assert_uint_eq(stats_of_wheel().stalls, 2);
}
END_TEST

/* P6. The wheel has run at a later time than it is now. */
START_TEST(a_clock_that_stepped_back_hides_no_stall) {
  open_wheel(10, 64);
  begin_test_timer(&other, 5000, 0);
  run_for(6000);
  set_clock_ms(START_MS);
  begin_heard_timer(&timer, 400, 0);
  virtual_time_advance_ms(2400);
  run_for(50);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
}
END_TEST

static void step_back_by_5_s(uv_check_t *check) {
  virtual_time_oversleep_ns(0);
  virtual_time_set_ns(virtual_time_ns() - UINT64_C(5000000000));
  ck_assert_int_eq(uv_check_stop(check), 0);
}

/* P2. The stepper runs after the wheel's check. The loop is late by 10 s. */
START_TEST(a_clock_that_steps_back_before_the_driver_delays_no_timer) {
  static uv_check_t stepper;

  ck_assert_int_eq(uv_check_init(&loop, &stepper), 0);
  ck_assert_int_eq(uv_check_start(&stepper, step_back_by_5_s), 0);
  open_wheel(10, 64);
  begin_test_timer(&timer, 1000, 0);
  virtual_time_oversleep_ns(UINT64_C(10000000000));
  uv_run(&loop, UV_RUN_ONCE);
  run_for(50);
  ck_assert_uint_eq(timer.fired, 1);
}
END_TEST

static void start_an_earlier_one(uv_timer_t *unused) {
  (void)unused;
  uv_update_time(&loop);
  begin_test_timer(&other, 0, 0);
}

static void restart(uv_timer_t *unused) {
  (void)unused;
  uv_update_time(&loop);
  test_timer_start(&timer, 5000, 0);
}

static void ignore(uvwheel_timer_t *visited, void *arg) {
  (void)visited, (void)arg;
}

static void walk(uv_timer_t *unused) {
  (void)unused;
  uvwheel_walk(&wheel, ignore, NULL);
}

static const uv_timer_cb acts[] = {start_an_earlier_one, restart, walk};

/* P6. The uv_timer_t is due before the wheel's, or acts before the run. (libuv
 * since 1.48 first gathers all timers that are due, which makes them inactive.
 * Their callbacks must not arm the driver anew.) */
START_TEST(nothing_that_is_done_before_the_turn_hides_a_stall) {
  uv_timer_cb act = acts[_i / 2];
  static uv_timer_t before;

  open_wheel(10, 64);
  begin_test_timer(&timer, 100, 0);
  if (_i % 2)
    begin_uv_timer(&before, act, 1, 0);
  virtual_time_advance_ms(9000);
  if (_i % 2 == 0)
    act(NULL);
  run_for(50);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_ge(stats_of_wheel().stall_max_ms, 9000 - 110);
  run_for(20000);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
}
END_TEST

static void block(uv_timer_t *unused) {
  (void)unused;
  virtual_time_advance_ms(9000);
}

static void update(test_timer_t *unused) {
  (void)unused;
  uv_update_time(&loop);
}

static void take_9_s_and_update(test_timer_t *fired) {
  take_9_s(fired);
  update(fired);
}

static void take_9_s_once(test_timer_t *fired) {
  take_9_s(fired);
  fired->then = NULL;
}

/* The uv_timer_t is called right before the driver. A repeat that fires in the
 * turn begins a new beat by the clock, after the block. */
static const struct {
  uv_timer_cb before;
  void (*then)(test_timer_t *);
  uint64_t repeat;
} blocks[] = {{block, update, 0},
              {block, NULL, 0},
              {block, NULL, 1000},
              {block, NULL, 60000},
              {ignore_uv_timer, take_9_s_and_update, 0},
              {ignore_uv_timer, take_9_s, 0},
              {ignore_uv_timer, take_9_s_once, 1000}};

/* P6. Scenario 87. The next tick is far away. */
START_TEST(a_turn_that_is_a_stall_or_comes_after_one_tells_of_it) {
  static uv_timer_t before;
  uint64_t tick_ms;

  open_wheel(10, 64);
  tick_ms = fires_at(START_MS + 100);
  begin_uv_timer(&before, blocks[_i].before, tick_ms - START_MS, 0);
  begin_test_timer(&timer, 100, blocks[_i].repeat);
  timer.then = blocks[_i].then;
  begin_heard_timer(&other, 15000, 0);
  run_for(60000);
  ck_assert_uint_ge(timer.fired, 1);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_eq(stats_of_wheel().stall_sum_ms, 9000);
  ck_assert_uint_eq(other.fired_ms, fires_at(tick_ms + 9000 + 15000));
}
END_TEST

static uint64_t takes_ms;

static void take_time(test_timer_t *unused) {
  (void)unused;
  virtual_time_advance_ms(takes_ms);
}

/* P6. By the clock, from the loop time at which the turn began. */
START_TEST(a_turn_that_takes_more_than_stall_ms_is_a_stall) {
  uint64_t is_stall = (uint64_t)_i;

  takes_ms = UVWHEEL_DEFAULT_STALL_MS + is_stall;
  open_wheel(10, 64);
  begin_test_timer(&timer, 100, 0);
  timer.then = take_time;
  begin_heard_timer(&other, 15000, 0);
  run_for(60000);
  ck_assert_uint_eq(stats_of_wheel().stalls, is_stall);
  ck_assert_uint_eq(stats_of_wheel().stall_sum_ms, is_stall * takes_ms);
  ck_assert_uint_eq(stats_of_wheel().put_back, is_stall);
}
END_TEST

static test_timer_t later;

static void block_and_empty_the_wheel(test_timer_t *fired) {
  if (uvwheel_count(&wheel) != 0)
    return;
  take_9_s(fired);
  begin_test_timer(&later, 20000, 0);
  test_timer_stop(&later);
  begin_heard_timer(&later, 20000, 0);
}

/* P6. The stop disarms the wheel, the start arms it again. */
START_TEST(a_spell_whose_wheel_was_empty_meanwhile_tells_of_one_stall) {
  open_wheel_with(&(uvwheel_options_t){.tick_ms = 10, .turn_budget = 1});
  begin_test_timer(&timer, 100, 0);
  begin_test_timer(&other, 100, 0);
  timer.then = other.then = block_and_empty_the_wheel;
  run_for(60000);
  ck_assert_uint_eq(stats_of_wheel().turns_cut, 1);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_eq(later.fired_ms,
                    fires_at(fires_at(timer.due_ms) + 9000 + 20000));
}
END_TEST

static uv_async_t io;

static void take_9_s_of_io(uv_async_t *unused) {
  (void)unused;
  virtual_time_advance_ms(9000);
}

/* P6. The wheel's check comes after both. */
START_TEST(a_turn_and_a_read_callback_that_block_are_one_stall) {
  open_wheel(10, 64);
  ck_assert_int_eq(uv_async_init(&loop, &io, take_9_s_of_io), 0);
  begin_test_timer(&timer, 100, 0);
  timer.then = take_9_s;
  begin_heard_timer(&other, 25000, 0);
  while (timer.fired == 0)
    uv_run(&loop, UV_RUN_ONCE);
  ck_assert_int_eq(uv_async_send(&io), 0);
  run_for(60000);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_eq(stats_of_wheel().stall_sum_ms, 18000);
}
END_TEST

/* ---- Half-way ------------------------------------------------------------ */

static uint64_t sleeps_during(uint64_t ms) {
  uint64_t before = virtual_time_sleeps();

  run_for(ms);
  return virtual_time_sleeps() - before;
}

static const struct {
  uint64_t tick_ms;
  uint64_t every_ms;
} idle[] = {{600, 60000},   {1000, 60000},  {5000, 60000},
            {10000, 60000}, {60000, 60000}, {100, DAY_MS}};

/* P9. The last sleep is run_for's. (On 32 bits libuv itself sleeps for half an
 * hour at most, so there are check-ins in a day: half-way, 17 times.) */
START_TEST(a_loop_without_io_is_woken_by_ticks_alone) {
  uint64_t every_ms = idle[_i].every_ms;
  uint64_t sleeps = sizeof(void *) < 8 && every_ms == DAY_MS ? 49 + 17 : 1;

  open_wheel(idle[_i].tick_ms, 0);
  begin_test_timer(&timer, every_ms, every_ms);
  ck_assert_uint_le(sleeps_during(10 * every_ms), 10 * sleeps + 1);
  ck_assert_uint_ge(timer.fired, 9);
  ck_assert_uint_eq(stats_of_wheel().turns, timer.fired);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  rewind_clock();
}
END_TEST

/* P9. Scenario 88. A poll that does not wait, and returns when the driver is
 * due, is no I/O. */
START_TEST(a_loop_that_is_run_by_hand_wakes_for_ticks_alone) {
  unsigned wakes = 0;

  open_wheel(0, 0);
  begin_test_timer(&timer, 60000, 60000);
  for (; uv_now(&loop) < START_MS + 3600000; wakes++) {
    uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_int_ge(uv_backend_timeout(&loop), 0);
    virtual_time_advance_ms((uint64_t)uv_backend_timeout(&loop));
    uv_update_time(&loop);
  }
  ck_assert_uint_ge(timer.fired, 59);
  ck_assert_uint_le(wakes, 61 * RUNS_PER_TURN);
  rewind_clock();
}
END_TEST

static uint64_t io_every_ms, io_until_ms;

static void on_io(uv_async_t *unused) {
  (void)unused;
}

static uint64_t send_io(void) {
  uint64_t now_ms = virtual_time_ns() / 1000000;

  ck_assert_int_eq(uv_async_send(&io), 0);
  return now_ms < io_until_ms ? (now_ms + io_every_ms) * 1000000 : UINT64_MAX;
}

/* There is I/O every so many ms, for so long. */
static void begin_io(uint64_t every_ms, uint64_t for_ms) {
  ck_assert_int_eq(uv_async_init(&loop, &io, on_io), 0);
  io_every_ms = every_ms;
  io_until_ms = START_MS + for_ms;
  virtual_time_set_world(send_io);
}

static void open_wheel_beside_io(uint64_t every_ms, uint64_t for_ms) {
  open_wheel(100, 512);
  begin_io(every_ms, for_ms);
}

static const unsigned wheel_counts[] = {1, 2, 10, 100};

#define MAX_WHEELS 100

/* P9. Scenario 72. No wheel takes the timers of the others for I/O. Beside I/O
 * once a minute each has two check-ins a minute. */
START_TEST(many_wheels_wake_a_loop_once_for_each_timer) {
  static uvwheel_t wheels[MAX_WHEELS];
  static uvwheel_timer_t repeating[MAX_WHEELS];
  unsigned count = wheel_counts[_i / 2], fired = 0, i;
  unsigned wakes = _i % 2 ? 3 * count + 1 : count;

  for (i = 0; i < count; i++) {
    ck_assert_int_eq(uvwheel_init(&loop, &wheels[i], NULL), 0);
    ck_assert_int_eq(uvwheel_timer_init(&wheels[i], &repeating[i]), 0);
    repeating[i].data = &fired;
    ck_assert_int_eq(
        uvwheel_timer_start(&repeating[i], count_timer, 60000 + i * 500, 60000),
        0);
  }
  if (_i % 2)
    begin_io(60000, 11 * 60000);
  ck_assert_uint_le(sleeps_during(10 * 60000 + 59000), 10 * wakes + 1);
  ck_assert_uint_eq(fired, 10 * count);
  for (i = 0; i < count; i++)
    uvwheel_close(&wheels[i], NULL);
  run_for(1);
}
END_TEST

/* Beside a timer of 100 s: how long there is I/O, when the loop is frozen, and
 * how far the first or second check-in is away then. (The last freeze begins
 * right after the first check-in.) */
static const struct {
  uint64_t io_ms;
  uint64_t at_ms;
  uint64_t check_in_ms;
} freezes[] = {
    {10000, 10000, 40300}, {60000, 60000, 15300}, {49000, 50031, 25300}};

static void freeze(uv_timer_t *freezer) {
  virtual_time_advance_ms(*(const uint64_t *)freezer->data);
  uv_update_time(&loop);
}

/* P6. For 0 to 119 s: beyond the check-in, or half of the way is left. */
START_TEST(a_freeze_before_the_tick_is_noticed_if_it_was_long) {
  uint64_t frozen_ms = (uint64_t)(_i % 120) * 1000;
  uint64_t at_ms = freezes[_i / 120].at_ms;
  static uv_timer_t freezer;

  open_wheel_beside_io(1000, freezes[_i / 120].io_ms);
  begin_heard_timer(&timer, 100000, 0);
  begin_uv_timer(&freezer, freeze, at_ms, 0);
  freezer.data = &frozen_ms;
  run_for(400000);
  ck_assert_uint_ge(timer.fired_ms - (START_MS + at_ms + frozen_ms),
                    (100000 - at_ms) / 2);
  ck_assert_uint_le(timer.fired_ms, timer.due_ms + frozen_ms + 1000 + 100);
  ck_assert_uint_eq(stats_of_wheel().stalls,
                    frozen_ms > freezes[_i / 120].check_in_ms);
}
END_TEST

/* P6. Each sleep lasts 5 s longer, and no poll returns for I/O. */
START_TEST(a_freeze_that_follows_another_one_is_noticed) {
  static test_timer_t first;

  open_wheel(100, 512);
  begin_heard_timer(&timer, 60000, 0);
  begin_test_timer(&first, 100, 0);
  virtual_time_oversleep_ns(UINT64_C(5000000000));
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  virtual_time_oversleep_ns(0);
  ck_assert_uint_ge(stats_of_wheel().stalls, 8);
}
END_TEST

static void take_40_s(test_timer_t *unused) {
  (void)unused;
  virtual_time_advance_ms(40000);
}

static void take_2_ms(uv_check_t *unused) {
  (void)unused;
  virtual_time_advance_ms(2);
}

/* P9. After a stall of 40 s, while it gives time; also after a stall by a
 * callback of the wheel, if callbacks come before its check. */
START_TEST(after_a_stall_the_loop_wakes_more_and_more_rarely) {
  static test_timer_t first;
  static uv_check_t slow;
  uint64_t early, middle, late;

  open_wheel(100, 512);
  begin_test_timer(&timer, 400000, 0);
  begin_test_timer(&first, 100, 0);
  if (_i == 1) {
    first.then = take_40_s;
    ck_assert_int_eq(uv_check_init(&loop, &slow), 0);
    ck_assert_int_eq(uv_check_start(&slow, take_2_ms), 0);
  }
  come_late(first.due_ms, _i == 1 ? 0 : 40000);
  early = sleeps_during(10000);
  middle = sleeps_during(20000);
  late = sleeps_during(10000);
  ck_assert_uint_gt(early, 2 * late);
  ck_assert_uint_ge(early + middle + late, 10);
  ck_assert_uint_le(early + middle + late, 14);
}
END_TEST

/* P6. After a stall of 40 s, while it gives time: not later than half-way. The
 * loop is frozen from 26 s to 34 s after it. */
START_TEST(after_a_stall_check_ins_are_half_way_at_the_latest) {
  static test_timer_t first;

  open_wheel(100, 512);
  begin_test_timer(&first, 100, 0);
  begin_heard_timer(&timer, 100 + 40000 + 36000, 0);
  come_late(first.due_ms, 40000);
  run_for(26000);
  virtual_time_advance_ms(8000);
  run_for(3000);
  ck_assert_uint_eq(stats_of_wheel().stalls, 2);
}
END_TEST

static void ignore_timer(uvwheel_timer_t *unused) {
  (void)unused;
}

static void become_empty(uvwheel_t *another, test_timer_t *its) {
  (void)another;
  ck_assert_int_eq(uvwheel_timer_stop(&its->base), 0);
}

static void lose_its_driver(uvwheel_t *another, test_timer_t *its) {
  (void)its;
  uv_close((uv_handle_t *)(uintptr_t)insides_of(another).driver, NULL);
}

static void close_it(uvwheel_t *another, test_timer_t *its) {
  (void)its;
  uvwheel_close(another, NULL);
}

static void let_it_repeat(uvwheel_t *another, test_timer_t *its) {
  (void)another;
  ck_assert_int_eq(uvwheel_timer_start(&its->base, ignore_timer, 7000, 10000),
                   0);
}

/* What happens to another wheel of the loop after 3 s, for how long there is
 * I/O, and when the loop is frozen. Beside a timer of 100 s there are check-ins
 * after 50, 75 and 87.5 s: the last one that there is I/O for is missed. */
static const struct {
  void (*act)(uvwheel_t *another, test_timer_t *its);
  uint64_t io_ms, at_ms, frozen_ms;
} neighbours[] = {{become_empty, 90000, 76000, 13000},
                  {lose_its_driver, 90000, 76000, 13000},
                  {close_it, 90000, 76000, 13000},
                  {let_it_repeat, 3000, 60000, 16000}};

/* P6. The other wheel does not hide the I/O that there was, and is not asked
 * once it is empty or closed. */
START_TEST(another_wheel_hides_no_freeze) {
  static uvwheel_t another;
  static uv_timer_t freezer;

  open_wheel_beside_io(1000, neighbours[_i].io_ms);
  ck_assert_int_eq(uvwheel_init(&loop, &another, NULL), 0);
  ck_assert_int_eq(uvwheel_timer_init(&another, &other.base), 0);
  ck_assert_int_eq(uvwheel_timer_start(&other.base, ignore_timer, 5000, 0), 0);
  begin_heard_timer(&timer, 100000, 0);
  run_for(3000);
  neighbours[_i].act(&another, &other);
  begin_uv_timer(&freezer, freeze, neighbours[_i].at_ms - 3000, 0);
  freezer.data = (void *)(uintptr_t)&neighbours[_i].frozen_ms;
  run_for(150000);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  uvwheel_close(&another, NULL);
  run_for(1);
}
END_TEST

static void take_1_ms_and_poll(uv_idle_t *handle) {
  (void)handle;
  virtual_time_advance_ms(1);
}

/* P6. No poll waits, so none may seem to have returned for I/O. */
START_TEST(a_freeze_of_a_loop_that_spins_is_noticed) {
  static const uint64_t frozen_ms = 60000;
  static uv_idle_t spinner;
  static uv_timer_t freezer;

  open_wheel(100, 512);
  ck_assert_int_eq(uv_idle_init(&loop, &spinner), 0);
  ck_assert_int_eq(uv_idle_start(&spinner, take_1_ms_and_poll), 0);
  begin_heard_timer(&timer, 100000, 0);
  begin_uv_timer(&freezer, freeze, 30000, 0);
  freezer.data = (void *)(uintptr_t)&frozen_ms;
  run_for(200000);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_ge(timer.fired_ms - (START_MS + 30000 + frozen_ms),
                    (100000 - 30000) / 2);
}
END_TEST

static const uint64_t earlier_ms[] = {0,     300,   9000,  40000,
                                      50000, 60000, 98000, 99900};

/* P2, P6. The wheel checks in in 40 s. The loop is frozen for none or
 * for three quarters of the time of the new timer. */
START_TEST(a_timer_that_begins_before_a_check_in_is_on_time) {
  uint64_t timeout = earlier_ms[_i / 2];
  uint64_t frozen_ms = _i % 2 ? timeout / 4 * 3 : 0;

  open_wheel_beside_io(1000, 10000);
  begin_heard_timer(&other, 100000, 0);
  run_for(10000);
  begin_heard_timer(&timer, timeout, 0);
  virtual_time_advance_ms(frozen_ms);
  run_for(300000);
  ck_assert_uint_ge(timer.fired_ms + UVWHEEL_DEFAULT_STALL_MS,
                    START_MS + 10000 + frozen_ms + timeout / 2);
  ck_assert_uint_le(timer.fired_ms, timer.due_ms + 2 * frozen_ms + 100);
  ck_assert_uint_le(other.fired_ms, other.due_ms + 2 * frozen_ms + 100);
  ck_assert(frozen_ms != 0 || stats_of_wheel().stalls == 0);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(a_wheel_that_runs_late_by_more_than_stall_ms_has_a_stall,
           thresholds),
      TEST(a_clock_that_stepped_back_hides_no_stall),
      TEST(a_clock_that_steps_back_before_the_driver_delays_no_timer),
      {nothing_that_is_done_before_the_turn_hides_a_stall, 0, 2 * LENGTH(acts)},
      EACH(a_turn_that_is_a_stall_or_comes_after_one_tells_of_it, blocks),
      {a_turn_that_takes_more_than_stall_ms_is_a_stall, 0, 2},
      TEST(a_loop_that_is_run_by_hand_wakes_for_ticks_alone),
      TEST(a_spell_whose_wheel_was_empty_meanwhile_tells_of_one_stall),
      TEST(a_turn_and_a_read_callback_that_block_are_one_stall),
      EACH(a_loop_without_io_is_woken_by_ticks_alone, idle),
      {many_wheels_wake_a_loop_once_for_each_timer, 0,
       2 * LENGTH(wheel_counts)},
      TEST(a_freeze_that_follows_another_one_is_noticed),
      {after_a_stall_the_loop_wakes_more_and_more_rarely, 0, 2},
      TEST(after_a_stall_check_ins_are_half_way_at_the_latest),
      EACH(another_wheel_hides_no_freeze, neighbours),
      TEST(a_freeze_of_a_loop_that_spins_is_noticed),
      {a_freeze_before_the_tick_is_noticed_if_it_was_long, 0,
       120 * LENGTH(freezes)},
      {a_timer_that_begins_before_a_check_in_is_on_time, 0,
       2 * LENGTH(earlier_ms)},
  };

  return run_loop_tests("stalls", tests, LENGTH(tests));
}
