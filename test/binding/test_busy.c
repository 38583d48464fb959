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
static uint64_t noise_ns; /* what its callback takes */

static void
on_noise(uv_poll_t *handle, int status, int events)
{
  (void)handle, (void)events;
  ck_assert_int_eq(status, 0);
  virtual_time_advance_ns(noise_ns);
}

static void
begin_noise(uint64_t takes_ns)
{
  noise_ns = takes_ns;
  ck_assert_int_eq(pipe(noise_fds), 0);
  ck_assert_int_eq(write(noise_fds[1], "x", 1), 1);
  ck_assert_int_eq(uv_poll_init(&loop, &noise, noise_fds[0]), 0);
  ck_assert_int_eq(uv_poll_start(&noise, UV_READABLE, on_noise), 0);
}

static void
end_noise(void)
{
  uv_close((uv_handle_t *)&noise, NULL);
  run_for(1);
  close(noise_fds[0]);
  close(noise_fds[1]);
}

/* In ms. */
static uint64_t
wait_of(uint64_t tick_ms)
{
  return min_of(max_of(tick_ms / 4, MIN_WAIT_MS), MAX_WAIT_MS);
}

/* ---- How late timers are ------------------------------------------------- */

/* The most that one was late, by the loop's time, and the shortest wait, by the
 * clock. Both from the due time on. */
static uint64_t latest_ms, shortest_wait_ms;

static void
note_lateness(test_timer_t *timer)
{
  uint64_t late_ms = timer->fired_ms - timer->due_ms;
  uint64_t waited_ms = virtual_time_ns() / NS_PER_MS - timer->due_ms;

  latest_ms = max_of(latest_ms, late_ms);
  shortest_wait_ms = min_of(shortest_wait_ms, waited_ms);
}

static const struct {
  uint64_t tick_ms;
  uint64_t takes_us; /* each iteration */
} quick[] = {{1, 100},   {1, 1000},   {10, 100},  {10, 1000},
             {20, 100},  {20, 1000},  {100, 100}, {100, 1000},
             {400, 500}, {1000, 500}, {4000, 500}};

#define MOMENTS 500u

static test_timer_t timers[MOMENTS];

/* A timer is due at each moment of two ticks, so that most of them become due
 * while others wait. */
static void
run_timers_of_all_moments(uint64_t tick_ms)
{
  size_t i;

  latest_ms = 0;
  shortest_wait_ms = UINT64_MAX;
  for (i = 0; i < MOMENTS; i++) {
    begin_test_timer(&timers[i], 50 + i * 2 * tick_ms / MOMENTS, 0);
    timers[i].then = note_lateness;
  }
  run_for(50 + 4 * tick_ms + 1000);
  ck_assert_uint_eq(fired_in_all, MOMENTS);
  ck_assert_uint_gt(shortest_wait_ms, wait_of(tick_ms));
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
}

/* P2, P6. Scenario 39. The wait slides: it is neither longer nor shorter for
 * those that become due while others wait. */
START_TEST(in_a_loop_that_is_never_quiet_timers_wait_for_a_quarter)
{
  uint64_t tick_ms = quick[_i].tick_ms, i;

  open_wheel(tick_ms, 512);
  begin_noise(quick[_i].takes_us * 1000);
  run_timers_of_all_moments(tick_ms);
  for (i = 0; i < 20; i++) { /* each alone: its wait begins when it is due */
    test_timer_start(&timers[0], 300 + i * 7, 0);
    run_for(300 + i * 7 + 2 * tick_ms + 260);
  }
  ck_assert_uint_eq(timers[0].fired, 1 + 20);
  ck_assert_uint_gt(shortest_wait_ms, wait_of(tick_ms));
  ck_assert_uint_le(latest_ms, tick_ms + wait_of(tick_ms));
  end_noise();
}
END_TEST

static const struct {
  uint64_t tick_ms;
  uint64_t takes_ms;
} slow[] = {{1, 5},   {10, 5},   {100, 5},  {1, 20},   {10, 20}, {100, 20},
            {10, 60}, {100, 60}, {4000, 5}, {10, 150}, {10, 240}};

/* P2, P6. The loop itself is late by an iteration, and the wait ends with one.
 * Two polls have passed then. */
START_TEST(slow_iterations_add_two_of_them)
{
  uint64_t tick_ms = slow[_i].tick_ms, takes_ms = slow[_i].takes_ms;

  open_wheel(tick_ms, 512);
  begin_noise(takes_ms * NS_PER_MS);
  run_timers_of_all_moments(tick_ms);
  ck_assert_uint_ge(shortest_wait_ms, 2 * takes_ms);
  ck_assert_uint_le(latest_ms, tick_ms + 2 * takes_ms +
                                   max_of(wait_of(tick_ms), takes_ms));
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
    {10, 100, 240000, 600, 250},
};

/* P7. Scenarios 35 and 39. Once per tick or iteration, if these are longer than
 * the repeat. The last one may come a tick, the wait and two iterations after
 * its time. */
START_TEST(a_loop_that_is_never_quiet_has_its_repeats)
{
  uint64_t tick_ms = repeats[_i].tick_ms, repeat_ms = repeats[_i].repeat_ms;
  uint64_t more_ms =
      tick_ms + wait_of(tick_ms) + 2 * repeats[_i].takes_us / 1000;
  static test_timer_t timer;

  open_wheel(tick_ms, 512);
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

static void
on_one_of_many(uvwheel_timer_t *timer)
{
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

/* P6. Scenario 35. What a turn leaves fires after the next poll. */
START_TEST(a_mass_expiry_goes_on_in_a_loop_that_is_never_quiet)
{
  uint64_t takes_ms = crowded[_i].takes_ms;
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
  ck_assert_uint_eq(last_poll - first_poll, polls_that_fired - 1);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  end_noise();
  uvwheel_close(&wheel, NULL);
  free(many);
}
END_TEST

/* ---- While a timer waits ------------------------------------------------- */

static void
run_the_loop(uvwheel_timer_t *timer, void *unused)
{
  (void)timer, (void)unused;
  run_for(1000);
}

START_TEST(a_walk_that_runs_a_busy_loop_fires_a_timer_once)
{
  static test_timer_t timer;

  open_wheel(100, 512);
  begin_noise(5 * NS_PER_MS);
  begin_test_timer(&timer, 90, 0);
  while (uv_now(&loop) < fires_at(timer.due_ms) + 10)
    ck_assert_int_ne(uv_run(&loop, UV_RUN_NOWAIT), 0);
  ck_assert_uint_eq(timer.fired, 0); /* it waits */
  uvwheel_walk(&wheel, run_the_loop, NULL);
  run_for(200);
  ck_assert_uint_eq(timer.fired, 1);
  end_noise();
}
END_TEST

/* The turn waits for as long as it would have without. */
START_TEST(a_clock_that_steps_back_does_not_prolong_the_wait_for_quiet)
{
  static test_timer_t timer;

  open_wheel_with(&(uvwheel_options_t){.stall_ms = UINT32_MAX});
  begin_noise(5 * NS_PER_MS);
  begin_test_timer(&timer, 100, 0);
  virtual_time_advance_ms(5000);
  ck_assert_int_ne(uv_run(&loop, UV_RUN_NOWAIT), 0);
  virtual_time_advance_ms(30); /* so that the wait begins anew */
  ck_assert_int_ne(uv_run(&loop, UV_RUN_NOWAIT), 0);
  ck_assert_uint_eq(timer.fired, 0);
  virtual_time_step_back_ms(2000);
  run_for(25 + 3 * 5);
  ck_assert_uint_eq(timer.fired, 1);
  end_noise();
}
END_TEST

static void
take_30_ms(uv_timer_t *timer)
{
  (void)timer;
  virtual_time_advance_ms(30);
}

/* P6. In each iteration one blocks the loop, so that the wait could begin anew
 * in each. */
START_TEST(uv_timers_that_block_prolong_the_wait_once)
{
  static test_timer_t timer;
  static uv_timer_t blocker;

  open_wheel(10, 512);
  begin_noise(NS_PER_MS);
  begin_uv_timer(&blocker, take_30_ms, 1, 1);
  begin_test_timer(&timer, 100, 0);
  run_for(100 + 10 + 2 * wait_of(10) + 4 * 31);
  ck_assert_uint_eq(timer.fired, 1);
  end_noise();
}
END_TEST

/* ---- Beside ten wheels --------------------------------------------------- */

#define WHEELS 10u

/* Scenario 45. Each wheel has a timer that waits at any time. An iteration
 * takes 10 us, so a millisecond has a hundred polls: a wheel asks after the
 * 1st, 2nd, 4th ... 64th. */
START_TEST(each_wheel_looks_for_descriptors_seven_times_in_a_hundred_polls)
{
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

/* P9. After a turn that was on time nothing keeps the loop awake. */
START_TEST(a_wheel_on_time_needs_one_poll_per_turn)
{
  static test_timer_t repeating[5];
  uint64_t polls;
  size_t i;

  open_wheel(10, 512);
  for (i = 0; i < LENGTH(repeating); i++)
    begin_test_timer(&repeating[i], 100, 100);
  run_for(50);
  polls = virtual_time_polls();
  run_for(1000);
  ck_assert_uint_eq(repeating[0].fired, 10);
  ck_assert_uint_le(virtual_time_polls() - polls, 10 + 2);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      EACH(in_a_loop_that_is_never_quiet_timers_wait_for_a_quarter, quick),
      EACH(slow_iterations_add_two_of_them, slow),
      EACH(a_loop_that_is_never_quiet_has_its_repeats, repeats),
      EACH(a_mass_expiry_goes_on_in_a_loop_that_is_never_quiet, crowded),
      TEST(a_walk_that_runs_a_busy_loop_fires_a_timer_once),
      TEST(a_clock_that_steps_back_does_not_prolong_the_wait_for_quiet),
      TEST(uv_timers_that_block_prolong_the_wait_once),
      TEST(each_wheel_looks_for_descriptors_seven_times_in_a_hundred_polls),
      TEST(a_wheel_on_time_needs_one_poll_per_turn),
  };

  return run_loop_tests("busy", tests, LENGTH(tests));
}
