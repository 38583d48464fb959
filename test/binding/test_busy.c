/* SPDX-License-Identifier: MIT */

/* A loop that is never quiet: a descriptor is ready at each poll. A timer that
 * is due waits for a quarter of a tick, at least 25 ms and at most 250 ms, and
 * for one whole poll (P2, P6). */

#include "p6.h"
#include "support.h"

#include <stdlib.h>
#include <unistd.h>

#define NS_PER_MS 1000000u

/* ---- What keeps it busy -------------------------------------------------- */

static uv_poll_t noise;
static int noise_fds[2];
static uint64_t noise_ns; /* what its callback takes           */
static bool is_updating;  /* it updates the loop's time after that */

static void on_noise(uv_poll_t *handle, int status, int events) {
  (void)handle, (void)events;
  ck_assert_int_eq(status, 0);
  virtual_time_advance_ns(noise_ns);
  if (is_updating)
    uv_update_time(&loop);
}

static void begin_noise(uint64_t takes_ns) {
  noise_ns = takes_ns;
  is_updating = false;
  ck_assert_int_eq(pipe(noise_fds), 0);
  ck_assert_int_eq(write(noise_fds[1], "x", 1), 1);
  ck_assert_int_eq(uv_poll_init(&loop, &noise, noise_fds[0]), 0);
  ck_assert_int_eq(uv_poll_start(&noise, UV_READABLE, on_noise), 0);
}

static void end_noise(void) {
  uv_close((uv_handle_t *)&noise, NULL);
  run_for(1);
  close(noise_fds[0]);
  close(noise_fds[1]);
}

/* In ms. */
static uint64_t wait_of(uint64_t tick_ms) {
  return min_of(max_of(tick_ms / 4, MIN_WAIT_MS), MAX_WAIT_MS);
}

/* ---- How late timers are ------------------------------------------------- */

/* From the due time on. A timer's callback finds the loop's time updated. */
static uint64_t latest_ms, shortest_wait_ms;

static void note_lateness(test_timer_t *timer) {
  uint64_t late_ms = timer->fired_ms - timer->due_ms;

  ck_assert_uint_eq(timer->fired_ms, virtual_time_ns() / NS_PER_MS);
  latest_ms = max_of(latest_ms, late_ms);
  shortest_wait_ms = min_of(shortest_wait_ms, late_ms);
}

static const struct {
  uint64_t tick_ms;
  uint64_t takes_us; /* each iteration */
} busy[] = {{1, 100},     {1, 1000},    {10, 100},   {10, 1000},   {20, 100},
            {20, 1000},   {100, 100},   {100, 1000}, {400, 500},   {1000, 500},
            {4000, 500},  {1, 5000},    {10, 5000},  {100, 5000},  {1, 20000},
            {10, 20000},  {100, 20000}, {10, 60000}, {100, 60000}, {4000, 5000},
            {10, 150000}, {10, 240000}};

#define MOMENTS 500u

static test_timer_t timers[MOMENTS];

/* P2, P6. Scenario 39. A timer is due at each moment of two ticks or
 * iterations, so that most of them become due while others wait; then one
 * alone, whose wait begins when it is due. The wait slides: it is neither
 * longer nor shorter for those that become due while others wait. It ends with
 * an iteration, and lasts for a whole one. A read callback that updates the
 * loop's time looks as if something had held the loop before the poll: the wait
 * begins anew, once. */
START_TEST(in_a_loop_that_is_never_quiet_timers_wait_for_a_quarter) {
  uint64_t tick_ms = busy[_i / 2].tick_ms;
  uint64_t takes_ms = busy[_i / 2].takes_us / 1000;
  uint64_t wait_ms = wait_of(tick_ms), i;
  uint64_t spread_ms = 2 * max_of(tick_ms, takes_ms);
  bool is_slow = takes_ms >= 5;

  latest_ms = 0;
  shortest_wait_ms = UINT64_MAX;
  open_wheel(tick_ms, 512);
  begin_noise(busy[_i / 2].takes_us * 1000);
  is_updating = _i % 2;
  for (i = 0; i < MOMENTS; i++) {
    begin_test_timer(&timers[i], 50 + i * spread_ms / MOMENTS, 0);
    timers[i].then = note_lateness;
  }
  run_for(50 + 2 * spread_ms + 1000);
  ck_assert_uint_eq(fired_in_all, MOMENTS);
  for (i = 0; i < 20 && !is_slow; i++) {
    test_timer_start(&timers[0], 300 + i * 7, 0);
    run_for(300 + i * 7 + 2 * tick_ms + 260);
    ck_assert_uint_eq(timers[0].fired, 2 + i);
  }
  ck_assert_uint_gt(shortest_wait_ms, wait_ms);
  ck_assert_uint_ge(shortest_wait_ms, takes_ms);
  if (takes_ms != 0)
    wait_ms = (wait_ms + takes_ms - 1) / takes_ms * takes_ms;
  ck_assert_uint_le(latest_ms,
                    tick_ms + wait_ms + (is_updating ? 2 : 1) * takes_ms);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  end_noise();
}
END_TEST

static uv_prepare_t holder;

static void block_once(uv_prepare_t *before_poll) {
  virtual_time_advance_ms(40);
  uv_prepare_stop(before_poll);
}

/* Two timers, each in a turn of its own, and noise that has stopped. */
static void begin_two_turns(void) {
  open_wheel_with(&(uvwheel_options_t){.turn_budget = 1});
  ck_assert_int_eq(uv_prepare_init(&loop, &holder), 0);
  begin_test_timer(&timers[0], 500, 0);
  begin_test_timer(&timers[1], 500, 0);
  begin_noise(NS_PER_MS);
  uv_poll_stop(&noise);
}

static void make_noise(void) {
  ck_assert_int_eq(uv_poll_start(&noise, UV_READABLE, on_noise), 0);
}

/* The loop is held before polls that find noise: the second time is over. */
static void expect_to_wait_once(void) {
  unsigned i;

  for (i = 0; i < 2; i++) {
    ck_assert_uint_eq(fired_in_all, 1);
    make_noise();
    ck_assert_int_eq(uv_prepare_start(&holder, block_once), 0);
    uv_run(&loop, UV_RUN_NOWAIT);
  }
  ck_assert_uint_eq(fired_in_all, 2);
}

/* P6. Once since the loop was quiet, even in a spell that goes on. */
START_TEST(the_wait_begins_anew_if_the_loop_is_held) {
  begin_two_turns();
  make_noise();
  run_for(fires_at(timers[0].due_ms) + 5 - uv_now(&loop));
  ck_assert_int_eq(uv_prepare_start(&holder, block_once), 0);
  uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_uint_eq(fired_in_all, 0);
  uv_poll_stop(&noise);
  while (fired_in_all == 0)
    uv_run(&loop, UV_RUN_NOWAIT);
  expect_to_wait_once();
  end_noise();
}
END_TEST

/* P6. In each spell, though the loop was not quiet between them. */
START_TEST(the_wait_begins_anew_in_each_spell) {
  unsigned i;

  open_wheel(0, 0);
  ck_assert_int_eq(uv_prepare_init(&loop, &holder), 0);
  begin_noise(NS_PER_MS);
  for (i = 0; i < 3; i++) {
    begin_test_timer(&timers[i], 500, 0);
    run_for(fires_at(timers[i].due_ms) + 5 - uv_now(&loop));
    ck_assert_int_eq(uv_prepare_start(&holder, block_once), 0);
    uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_uint_eq(fired_in_all, i);
    run_for(100);
    ck_assert_uint_eq(fired_in_all, i + 1);
  }
  end_noise();
}
END_TEST

static void block_and_make_noise(test_timer_t *unused) {
  (void)unused;
  virtual_time_advance_ms(200);
  make_noise();
}

/* P6. The callbacks that the driver has called before are no such time. */
START_TEST(the_wait_begins_after_the_turn_of_the_driver) {
  begin_two_turns();
  timers[0].then = timers[1].then = block_and_make_noise;
  while (fired_in_all == 0)
    uv_run(&loop, UV_RUN_ONCE);
  uv_run(&loop, UV_RUN_NOWAIT);
  expect_to_wait_once();
  end_noise();
}
END_TEST

/* ---- Repeats ------------------------------------------------------------- */

static const struct {
  uint64_t tick_ms;
  uint64_t repeat_ms;
  uint64_t takes_us; /* each iteration */
  unsigned due;
  unsigned least; /* of these have had a call */
} repeats[] = {
    {1, 10, 100, 1000, 1000},    {1, 10, 1000, 1000, 1000},
    {10, 20, 100, 500, 500},     {10, 20, 1000, 500, 500},
    {1, 100, 5000, 600, 600},    {10, 100, 5000, 600, 600},
    {100, 100, 5000, 600, 600},  {1, 100, 20000, 600, 600},
    {10, 100, 20000, 600, 600},  {100, 100, 20000, 600, 600},
    {10, 100, 60000, 600, 600},  {100, 100, 60000, 600, 600},
    {4000, 100, 5000, 600, 15},  {10, 100, 150000, 600, 400},
    {10, 100, 240000, 600, 125},
};

/* P7. Scenarios 35 and 39. Once per tick or iteration, if these are longer than
 * the repeat. The wait, which may be longer than stall_ms, begins no new beat.
 * The last one may come a tick, the wait and two iterations after its time. */
START_TEST(a_loop_that_is_never_quiet_has_its_repeats) {
  uint64_t tick_ms = repeats[_i].tick_ms, repeat_ms = repeats[_i].repeat_ms;
  uint64_t more_ms =
      tick_ms + wait_of(tick_ms) + 2 * repeats[_i].takes_us / 1000;
  static test_timer_t timer;

  open_wheel_with(&(uvwheel_options_t){
      .tick_ms = tick_ms, .stall_ms = repeats[_i].takes_us < 20000 ? 20 : 0});
  begin_noise(repeats[_i].takes_us * 1000);
  begin_test_timer(&timer, repeat_ms, repeat_ms);
  run_for(repeats[_i].due * repeat_ms + more_ms);
  ck_assert_uint_ge(timer.fired, repeats[_i].least);
  ck_assert_uint_le(timer.fired, repeats[_i].due + more_ms / repeat_ms);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  end_noise();
}
END_TEST

/* ---- Mass expiry --------------------------------------------------------- */

#define MANY 50000u

static unsigned polls_that_fired;
static uint64_t fired_since_poll, most_since_poll, first_poll, last_poll;
static bool begins_noise; /* the first of them does */

static void on_one_of_many(uvwheel_timer_t *timer) {
  if (virtual_time_polls() != last_poll) {
    fired_since_poll = 0;
    if (polls_that_fired++ == 0)
      first_poll = virtual_time_polls();
  }
  last_poll = virtual_time_polls();
  if (begins_noise)
    ck_assert_int_eq(write(noise_fds[1], "x", 1), 1);
  begins_noise = false;
  fired_since_poll++;
  most_since_poll = max_of(most_since_poll, fired_since_poll);
  ++*(unsigned *)timer->data;
}

static const struct {
  const char *name;
  uint64_t takes_ms;
  bool begins_in_turn;
} crowded[] = {
    {"5 ms", 5, false},
    {"20 ms", 20, false},
    {"60 ms", 60, false},
    {"20 ms, begun by the first that fires", 20, true},
};

/* P6. Scenario 35. What a turn leaves fires after the next poll, or, when the
 * loop is no longer quiet, after a wait. */
START_TEST(a_mass_expiry_goes_on_in_a_loop_that_is_never_quiet) {
  uint64_t takes_ms = crowded[_i].takes_ms;
  uint64_t waited_polls = wait_of(100) / takes_ms;
  uvwheel_timer_t *many;
  char byte;
  unsigned fired = 0;

  most_since_poll = polls_that_fired = 0;
  open_wheel(100, 512);
  begin_noise(takes_ms * NS_PER_MS);
  begins_noise = crowded[_i].begins_in_turn;
  if (begins_noise)
    ck_assert_int_eq(read(noise_fds[0], &byte, 1), 1);
  many = begin_timers(MANY, on_one_of_many, 1000, 0, &fired);
  run_for(1000 + 100 + wait_of(100) + 9 * takes_ms);
  ck_assert_msg(fired == MANY, "%s: %u", crowded[_i].name, fired);
  ck_assert_uint_le(most_since_poll, UVWHEEL_DEFAULT_TURN_BUDGET);
  ck_assert_uint_eq(polls_that_fired, MANY / UVWHEEL_DEFAULT_TURN_BUDGET);
  ck_assert_uint_eq(last_poll - first_poll,
                    polls_that_fired - 1 +
                        (crowded[_i].begins_in_turn ? waited_polls : 0));
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  end_noise();
  uvwheel_close(&wheel, NULL);
  free(many);
}
END_TEST

/* ---- Overload ------------------------------------------------------------ */

/* Each iteration takes so long, or the loop is run each so many ms by hand. */
static const struct {
  uint64_t takes_ms;
  uint64_t frame_ms;
  uint64_t timeout_ms;
  uint64_t late_ms; /* at most */
} overloads[] = {{400, 0, 5000, 600},   {300, 0, 10000, 500},
                 {1000, 0, 5000, 2000}, {400, 0, 60000, 800},
                 {1, 300, 5000, 800},   {1, 500, 5000, 1600},
                 {1, 1000, 5000, 3100}};

/* P2, P6. Scenarios 54 and 55. Each iteration is a stall. It puts those
 * timers back alone whose peers are expected, six times at most. Some timer
 * waits for the next poll at any time, which does not lengthen the sixth. */
START_TEST(an_overloaded_loop_keeps_appointments_and_six_stalls) {
  uint64_t timeout_ms = overloads[_i].timeout_ms;
  uint64_t iteration_ms = overloads[_i].takes_ms + overloads[_i].frame_ms;
  static test_timer_t timer;
  unsigned i;

  latest_ms = 0;
  open_wheel(100, 512);
  begin_noise(overloads[_i].takes_ms * NS_PER_MS);
  begin_test_timer(&timer, timeout_ms, 0);
  for (i = 0; i < MOMENTS; i++) {
    begin_heard_timer(&timers[i], timeout_ms + i * 100, 0);
    timers[i].then = note_lateness;
  }
  while (fired_in_all < MOMENTS + 1) {
    ck_assert_uint_le(uv_now(&loop), START_MS + 5 * timeout_ms + 100000);
    virtual_time_advance_ms(overloads[_i].frame_ms);
    uv_run(&loop, UV_RUN_NOWAIT);
  }
  ck_assert_uint_le(timer.fired_ms - timer.due_ms, overloads[_i].late_ms);
  ck_assert_uint_le(latest_ms, overloads[_i].late_ms + iteration_ms +
                                   MAX_STALLS * with_grace(iteration_ms));
  end_noise();
}
END_TEST

/* P6. A read callback blocks while the timer waits: no poll has followed. */
START_TEST(a_block_while_a_timer_waits_is_a_stall) {
  static test_timer_t timer;
  unsigned is_refreshed = _i == 1;

  open_wheel(100, 512);
  begin_noise(NS_PER_MS);
  (is_refreshed ? begin_heard_timer : begin_test_timer)(&timer, 500, 0);
  run_for(fires_at(timer.due_ms) + 10 - uv_now(&loop));
  noise_ns = 700 * NS_PER_MS;
  uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_uint_eq(timer.fired, !is_refreshed);
  ck_assert_uint_eq(stats_of_wheel().put_back, is_refreshed);
  noise_ns = NS_PER_MS;
  run_for(1000);
  ck_assert_uint_eq(timer.fired, 1);
  end_noise();
}
END_TEST

static const uint64_t iterations_ms[] = {20, 50, 100, 240, 500, 1000};

static uint64_t late_sum_ms;

static void add_lateness(test_timer_t *timer) {
  late_sum_ms += virtual_time_ns() / NS_PER_MS - timer->due_ms;
}

/* P2, P6. Scenario 71. By the clock and in the mean, a uv_timer_t is late by
 * half of an iteration. A timer of the wheel waits for one whole poll more, or
 * for as many as 25 ms take. */
START_TEST(in_a_flood_a_timer_is_late_by_an_iteration_and_a_half) {
  uint64_t takes_ms = iterations_ms[_i / 2], mean_ms;
  unsigned i;

  open_wheel_with(
      &(uvwheel_options_t){.tick_ms = 1, .stall_ms = _i % 2 ? UINT32_MAX : 0});
  begin_noise(takes_ms * NS_PER_MS);
  late_sum_ms = 0;
  for (i = 0; i < MOMENTS; i++) {
    begin_test_timer(&timers[i], 5000 + i * 7, 0);
    timers[i].then = add_lateness;
  }
  run_for(5000 + MOMENTS * 7 + 4 * takes_ms);
  ck_assert_uint_eq(fired_in_all, MOMENTS);
  mean_ms = (MIN_WAIT_MS + takes_ms - 1) / takes_ms * takes_ms + takes_ms / 2;
  ck_assert_uint_le(late_sum_ms, mean_ms * MOMENTS * 21 / 20);
  end_noise();
}
END_TEST

static void step_back(uv_check_t *check) {
  virtual_time_set_ns(virtual_time_ns() - (uint64_t)100 * NS_PER_MS);
  ck_assert_int_eq(uv_check_stop(check), 0);
}

/* P6. The stepper runs after the wheel's check, which has found the loop quiet.
 * When the driver comes at last there is noise. */
START_TEST(what_was_heard_before_the_clock_stepped_back_is_too_old) {
  static uv_check_t stepper;

  ck_assert_int_eq(uv_check_init(&loop, &stepper), 0);
  ck_assert_int_eq(uv_check_start(&stepper, step_back), 0);
  open_wheel(10, 64);
  begin_test_timer(&timers[0], 200, 0);
  uv_run(&loop, UV_RUN_ONCE);
  begin_noise(NS_PER_MS);
  uv_run(&loop, UV_RUN_NOWAIT);
  virtual_time_advance_ms(100);
  uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_uint_eq(fired_in_all, 0);
  run_for(100);
  ck_assert_uint_eq(fired_in_all, 1);
  end_noise();
  rewind_clock();
}
END_TEST

/* The wait need not begin anew, or does so after the step, or before it. */
static const struct {
  uint64_t hold_ms, second_hold_ms;
  unsigned step_at; /* a hold */
} steps[] = {{0, 0, 2}, {30, 30, 2}, {0, 40, 3}};

static unsigned holds;

static void hold_or_step_back(uv_prepare_t *before_poll) {
  int row = *(int *)before_poll->data;

  holds++;
  virtual_time_advance_ms(holds == 2 ? steps[row].second_hold_ms
                                     : steps[row].hold_ms);
  if (holds == steps[row].step_at) {
    ck_assert_uint_eq(fired_in_all, 0);
    virtual_time_set_ns(virtual_time_ns() - (uint64_t)3000 * NS_PER_MS);
  }
}

/* P2, P6. It began at a time that is now in the future. */
START_TEST(a_wait_goes_on_though_the_clock_has_stepped_back) {
  open_wheel(10, 64);
  ck_assert_int_eq(uv_prepare_init(&loop, &holder), 0);
  holder.data = &_i;
  holds = 0;
  begin_test_timer(&timers[0], 200, 0);
  begin_noise(NS_PER_MS);
  virtual_time_advance_ms(5000);
  ck_assert_int_eq(uv_prepare_start(&holder, hold_or_step_back), 0);
  while (holds < steps[_i].step_at)
    uv_run(&loop, UV_RUN_NOWAIT);
  run_for(2 * (MIN_WAIT_MS + steps[_i].hold_ms + 2));
  ck_assert_uint_eq(fired_in_all, 1);
  end_noise();
  rewind_clock();
}
END_TEST

/* ---- Beside ten wheels --------------------------------------------------- */

#define WHEELS 10u

/* Scenario 45. Each wheel has a timer that waits at any time. An iteration
 * takes 10 us, so a millisecond has a hundred polls: a wheel asks after the
 * 1st, 2nd, 4th ... 64th. */
START_TEST(each_wheel_looks_for_descriptors_seven_times_in_a_hundred_polls) {
  const uvwheel_options_t options = {.tick_ms = 10};
  static uvwheel_t wheels[WHEELS];
  static uvwheel_timer_t repeating[WHEELS];
  uint64_t peeks, polls;
  unsigned fired = 0, i;

  for (i = 0; i < WHEELS; i++) {
    ck_assert_int_eq(uvwheel_init(&loop, &wheels[i], &options), 0);
    ck_assert_int_eq(uvwheel_timer_init(&wheels[i], &repeating[i]), 0);
    repeating[i].data = &fired;
    ck_assert_int_eq(uvwheel_timer_start(&repeating[i], count_timer, 10, 10),
                     0);
  }
  begin_noise(10000);
  peeks = virtual_time_peeks();
  polls = virtual_time_polls();
  run_for(1000);
  ck_assert_uint_ge(virtual_time_polls() - polls, 100000);
  ck_assert_uint_le(virtual_time_peeks() - peeks, WHEELS * 7 * 1001);
#ifdef __linux__ /* peeks are counted there */
  ck_assert_uint_ge(virtual_time_peeks() - peeks, WHEELS * 6 * 1000);
#endif
  ck_assert_uint_ge(fired, WHEELS * 95);
  end_noise();
  for (i = 0; i < WHEELS; i++)
    uvwheel_close(&wheels[i], NULL);
  run_for(1);
}
END_TEST

/* P9. It has no turn, and nobody asks whether the loop is quiet; nor if the
 * loop is late. The turn before it, of one timer, was heard. (Before libuv 1.45
 * UV_RUN_ONCE ends with the timers: no check comes between two turns then.) */
START_TEST(a_tick_at_which_all_timers_were_refreshed_costs_no_system_call) {
  uint64_t tick_due_ms, peeks;
  size_t i;

  open_wheel(100, 512);
  for (i = 0; i < 256; i++)
    begin_test_timer(&timers[i], 1000, 0);
  tick_due_ms = timers[0].due_ms;
  begin_test_timer(&timers[256], 100, 0);
  while (timers[256].fired == 0)
    uv_run(&loop, UV_RUN_ONCE);
  if (_i != 2)
    run_for(500);
  for (i = 0; i < 256; i++)
    test_timer_refresh(&timers[i]);
  peeks = virtual_time_peeks();
  if (_i == 2)
    virtual_time_advance_ms(1000), uv_run(&loop, UV_RUN_NOWAIT);
  else
    come_late(tick_due_ms, _i == 0 ? 0 : 100);
  ck_assert_uint_eq(stats_of_wheel().rescheduled, 256);
  ck_assert_uint_eq(stats_of_wheel().turns, 1);
  ck_assert_uint_eq(virtual_time_peeks(), peeks);
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, 257);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      {in_a_loop_that_is_never_quiet_timers_wait_for_a_quarter, 0,
       2 * LENGTH(busy)},
      TEST(the_wait_begins_anew_if_the_loop_is_held),
      TEST(the_wait_begins_anew_in_each_spell),
      TEST(the_wait_begins_after_the_turn_of_the_driver),
      EACH(a_loop_that_is_never_quiet_has_its_repeats, repeats),
      EACH(a_mass_expiry_goes_on_in_a_loop_that_is_never_quiet, crowded),
      EACH(an_overloaded_loop_keeps_appointments_and_six_stalls, overloads),
      {a_block_while_a_timer_waits_is_a_stall, 0, 2},
      {in_a_flood_a_timer_is_late_by_an_iteration_and_a_half, 0,
       2 * LENGTH(iterations_ms)},
      TEST(what_was_heard_before_the_clock_stepped_back_is_too_old),
      EACH(a_wait_goes_on_though_the_clock_has_stepped_back, steps),
      TEST(each_wheel_looks_for_descriptors_seven_times_in_a_hundred_polls),
      {a_tick_at_which_all_timers_were_refreshed_costs_no_system_call, 0, 3},
  };

  return run_loop_tests("busy", tests, LENGTH(tests));
}
