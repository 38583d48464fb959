/* SPDX-License-Identifier: MIT */

/* What is no stall: the wheel's own callbacks, the sleep of a program that
 * drives the loop by hand, I/O in each iteration. Repeats keep their rate and
 * mass expiry goes on. */

#include "support.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define TICK_MS 10

static uint64_t busy_ns; /* what each callback of the test's handle takes */
static bool is_updating;

static void
be_busy(void)
{
  virtual_time_advance_ns(busy_ns);
  if (is_updating)
    uv_update_time(&loop);
}

static void
take_busy_ns(test_timer_t *timer)
{
  (void)timer;
  be_busy();
}

/* Starts a repeating timer. Returns how often it was called in 600 repeats. */
static unsigned
count_calls(test_timer_t *timer, uint64_t repeat)
{
  test_timer_start(timer, repeat, repeat);
  run_for(600 * repeat + 2 * repeat / 3);
  test_timer_stop(timer);
  return timer->fired;
}

/* ---- Callbacks of the wheel ---------------------------------------------- */

static const struct {
  uint64_t tick_ms;
  uint64_t repeat;
  uint64_t takes_ms;
  bool update;
} slow_callbacks[] = {
    {100, 1000, 300, false}, {100, 1000, 300, true},  {100, 1000, 400, false},
    {100, 1000, 400, true},  {100, 1000, 800, false}, {100, 1000, 800, true},
    {10, 1000, 300, true},   {10, 1000, 800, false},  {1, 1000, 800, true},
    {10, 100, 50, false},    {10, 100, 50, true},
};

/* P7. Scenario 30, beside a quick timer, by which the loop is often on time. */
START_TEST(a_repeat_whose_callback_is_slow_keeps_its_rate)
{
  static test_timer_t timer, quick;

  open_wheel(slow_callbacks[_i].tick_ms, 512);
  busy_ns = slow_callbacks[_i].takes_ms * 1000000;
  is_updating = slow_callbacks[_i].update;
  test_timer_init(&timer);
  timer.then = take_busy_ns;
  test_timer_init(&quick);
  test_timer_start(&quick, 50, 50);
  ck_assert_uint_ge(count_calls(&timer, slow_callbacks[_i].repeat), 599);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  ck_assert_uint_eq(stats_of_wheel().stall_sum_ms, 0);
}
END_TEST

/* ---- Beside callbacks of others -------------------------------------------
 */

static uv_timer_t other;

static void
on_other(uv_timer_t *timer)
{
  (void)timer;
  be_busy();
}

static const struct {
  uint64_t tick_ms;
  uint64_t repeat;
  uint64_t every_ms;
  uint64_t takes_ms;
  bool update;
} beside[] = {
    {100, 100, 100, 2, false}, {100, 100, 100, 2, true},
    {10, 100, 100, 2, false},  {10, 100, 100, 2, true},
    {10, 100, 3, 2, false},    {10, 100, 3, 2, true},
    {100, 100, 3, 2, false},   {100, 100, 3, 2, true},
    {1, 100, 10, 2, false},    {100, 1000, 1000, 200, true},
    {10, 250, 90, 30, false},
};

/* P7. Both begin at the same time, so that the beat is in phase with the ticks.
 */
START_TEST(a_repeat_beside_a_uv_timer_keeps_its_rate)
{
  static test_timer_t timer;

  virtual_time_set_ns(START_MS / 1000 * 1000 * 1000000);
  uv_update_time(&loop);
  open_wheel(beside[_i].tick_ms, 512);
  busy_ns = beside[_i].takes_ms * 1000000;
  is_updating = beside[_i].update;
  test_timer_init(&timer);
  ck_assert_int_eq(uv_timer_init(&loop, &other), 0);
  ck_assert_int_eq(uv_timer_start(&other, on_other, beside[_i].every_ms,
                                  beside[_i].every_ms),
                   0);
  ck_assert_uint_ge(count_calls(&timer, beside[_i].repeat), 598);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  uv_close((uv_handle_t *)&other, NULL);
}
END_TEST

/* ---- A loop that is never quiet -------------------------------------------
 */

static uv_poll_t noise;
static int noise_fds[2];

static void
on_noise(uv_poll_t *handle, int status, int events)
{
  (void)handle, (void)events;
  ck_assert_int_eq(status, 0);
  be_busy();
}

/* A descriptor that is ready at each poll. */
static void
begin_noise(uint64_t takes_ms)
{
  busy_ns = takes_ms * 1000000;
  is_updating = false;
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

static unsigned drawn;

static void
on_drawn(uvwheel_timer_t *timer)
{
  (void)timer;
  virtual_time_advance_ms(3);
  drawn++;
}

static void
on_shed(uv_poll_t *handle, int status, int events)
{
  (void)status, (void)events;
  ck_assert_int_eq(uv_poll_stop(handle), 0);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 100), 100);
}

/* P6. 300 ms, in a callback of another handle. */
START_TEST(what_callbacks_of_the_soonest_take_is_no_stall)
{
  static uvwheel_timer_t timers[101];
  size_t i;

  open_wheel(100, 512);
  drawn = 0;
  for (i = 0; i < LENGTH(timers); i++) {
    ck_assert_int_eq(uvwheel_timer_init(&wheel, &timers[i]), 0);
    ck_assert_int_eq(uvwheel_timer_start(&timers[i], on_drawn, 50000, 0), 0);
  }
  begin_noise(0);
  ck_assert_int_eq(uv_poll_start(&noise, UV_READABLE, on_shed), 0);
  run_for(1000);
  ck_assert_uint_eq(drawn, 100);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  end_noise();
}
END_TEST

/* For how long a turn waits for such a loop to become quiet: a quarter of a
 * tick, within bounds, but two iterations at least. */
static uint64_t
longest_wait_ms(uint64_t tick_ms, uint64_t iteration_ms)
{
  uint64_t quarter_ms = tick_ms / 4;
  uint64_t wait_ms = quarter_ms < 25 ? 25 : quarter_ms > 250 ? 250 : quarter_ms;

  return wait_ms > iteration_ms ? wait_ms + iteration_ms : 2 * iteration_ms;
}

static const struct {
  uint64_t tick_ms;
  uint64_t takes_ms;
  unsigned least; /* calls of a repeat of 100 ms, of 600 */
} noises[] = {
    {1, 5, 595},   {10, 5, 595},   {100, 5, 595},  {1, 20, 595},
    {10, 20, 595}, {100, 20, 590}, {10, 60, 490},  {100, 60, 490},
    {4000, 5, 10}, {10, 150, 190}, {10, 240, 120},
};

/* Scenario 35: at most once in two iterations, if these are long. */
START_TEST(a_loop_that_is_never_quiet_has_its_repeats)
{
  static test_timer_t timer;

  open_wheel(noises[_i].tick_ms, 512);
  begin_noise(noises[_i].takes_ms);
  test_timer_init(&timer);
  ck_assert_uint_ge(count_calls(&timer, 100), noises[_i].least);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  end_noise();
}
END_TEST

/* P2, P6 */
START_TEST(in_a_loop_that_is_never_quiet_timers_are_late_by_little)
{
  uint64_t tick_ms = noises[_i].tick_ms, takes_ms = noises[_i].takes_ms;
  static test_timer_t timers[100];
  size_t i;

  open_wheel(tick_ms, 512);
  begin_noise(takes_ms);
  test_timer_init_all(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], 100 + 37 * i, 0);
  run_for(20000);
  ck_assert_uint_eq(fired_in_all, LENGTH(timers));
  ck_assert_uint_le(stats_of_wheel().lateness_max_ms,
                    takes_ms + longest_wait_ms(tick_ms, takes_ms) + 1);
  end_noise();
}
END_TEST

#define MANY 50000u

static unsigned fired_since_poll, most_since_poll, polls_that_fired;
static uint64_t first_poll, last_poll;
static uint64_t noise_to_begin_ms; /* by the first of them; 0: none */

static void
on_one_of_many(uvwheel_timer_t *timer)
{
  if (virtual_time_polls() != last_poll) {
    fired_since_poll = 0;
    if (polls_that_fired++ == 0)
      first_poll = virtual_time_polls();
  }
  last_poll = virtual_time_polls();
  if (noise_to_begin_ms != 0)
    begin_noise(noise_to_begin_ms);
  noise_to_begin_ms = 0;
  fired_since_poll++;
  if (fired_since_poll > most_since_poll)
    most_since_poll = fired_since_poll;
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

/* P6. What a turn leaves is fired after the next poll, and waits for nothing.
 */
START_TEST(a_mass_expiry_goes_on_in_a_loop_that_is_never_quiet)
{
  uint64_t takes_ms = crowded[_i].takes_ms;
  uvwheel_timer_t *timers = calloc(MANY, sizeof *timers);
  unsigned fired = 0, i, errors = 0;

  ck_assert_ptr_nonnull(timers);
  most_since_poll = polls_that_fired = 0;
  open_wheel(100, 512);
  if (crowded[_i].begins_in_turn)
    noise_to_begin_ms = takes_ms;
  else
    begin_noise(takes_ms);
  for (i = 0; i < MANY; i++) {
    errors += uvwheel_timer_init(&wheel, &timers[i]) != 0;
    timers[i].data = &fired;
    errors += uvwheel_timer_start(&timers[i], on_one_of_many, 1000, 0) != 0;
  }
  ck_assert_uint_eq(errors, 0);
  run_for(1000 + 100 + longest_wait_ms(100, takes_ms) + 7 * takes_ms);
  ck_assert_msg(fired == MANY, "%s: %u", crowded[_i].name, fired);
  ck_assert_uint_le(most_since_poll, UVWHEEL_DEFAULT_TURN_BUDGET);
  ck_assert_uint_eq(polls_that_fired, MANY / UVWHEEL_DEFAULT_TURN_BUDGET);
  ck_assert_uint_eq(last_poll - first_poll, polls_that_fired - 1);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  end_noise();
  uvwheel_close(&wheel, NULL);
  free(timers);
}
END_TEST

static void
run_the_loop(uvwheel_timer_t *timer, void *unused)
{
  (void)unused;
  run_for(1000);
  ck_assert(uvwheel_timer_is_active(timer));
}

/* Not even while a turn waits for quiet. */
START_TEST(a_walk_that_runs_the_loop_fires_nothing)
{
  static test_timer_t timer;

  open_wheel(100, 512);
  begin_noise(5);
  test_timer_init(&timer);
  test_timer_start(&timer, 90, 0);
  while (wheel.polled_ms == 0)
    ck_assert_int_ne(uv_run(&loop, UV_RUN_NOWAIT), 0);
  uvwheel_walk(&wheel, run_the_loop, NULL);
  ck_assert_uint_eq(timer.fired, 0);
  run_for(200);
  ck_assert_uint_eq(timer.fired, 1);
  end_noise();
}
END_TEST

/* The turn waits for as long as it would have without. */
START_TEST(a_clock_that_steps_back_does_not_prolong_the_wait_for_quiet)
{
  const uvwheel_options_t options = {.stall_ms = UINT32_MAX};
  static test_timer_t timer;

  open_wheel_with(&options);
  begin_noise(5);
  test_timer_init(&timer);
  test_timer_start(&timer, 100, 0);
  virtual_time_advance_ms(5000);
  ck_assert_int_ne(uv_run(&loop, UV_RUN_NOWAIT), 0);
  ck_assert_int_ne(uv_run(&loop, UV_RUN_NOWAIT), 0);
  ck_assert_uint_eq(timer.fired, 0);
  virtual_time_step_back_ms(2000);
  run_for(25 + 3 * 5);
  ck_assert_uint_eq(timer.fired, 1);
  end_noise();
}
END_TEST

/* ---- A program that drives the loop by hand --------------------------------
 */

/* As with a loop inside another one: the program waits on the descriptor for as
 * long as the loop says, then runs it once. The loop's time is then as old as
 * its last iteration. */
static void
drive_by_hand_until(uint64_t end_ns)
{
  while (virtual_time_ns() < end_ns) {
    struct pollfd backend = {.fd = uv_backend_fd(&loop), .events = POLLIN};
    int timeout_ms = uv_backend_timeout(&loop);
    if (poll(&backend, 1, 0) == 0 && timeout_ms > 0)
      virtual_time_advance_ms((uint64_t)timeout_ms);
    else if (timeout_ms < 0)
      virtual_time_set_ns(end_ns);
    uv_run(&loop, UV_RUN_NOWAIT);
  }
}

/* P6. Scenario 31. */
START_TEST(a_program_that_drives_the_loop_by_hand_is_not_deaf)
{
  static const uint64_t ticks_ms[] = {1, 10, 100, 1000};
  static test_timer_t timers[40], beat;
  size_t i;

  open_wheel(ticks_ms[_i], 512);
  test_timer_init_all(timers, LENGTH(timers));
  test_timer_init(&beat);
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], 77 * i * i, 0);
  test_timer_start(&beat, 2000, 2000);
  drive_by_hand_until((START_MS + 130000) * 1000000);
  ck_assert_uint_eq(fired_in_all, LENGTH(timers) + beat.fired);
  ck_assert_uint_ge(beat.fired, 64);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  ck_assert_uint_eq(stats_of_wheel().lateness_max_ms, 0);
  /* A turn has few iterations that do not sleep. */
  ck_assert_uint_le(virtual_time_polls(), 8 * (LENGTH(timers) + 64));
}
END_TEST

/* ---- Sleeps -----------------------------------------------------------------
 */

/* P9. A turn adds a poll that does not wait, and no sleep. */
START_TEST(a_turn_adds_no_sleep)
{
  static test_timer_t timers[10];
  uint64_t sleeps, polls;
  size_t i;

  open_wheel(100, 512);
  test_timer_init_all(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], 1000 * i, 0);
  sleeps = virtual_time_sleeps();
  polls = virtual_time_polls();
  run_for(20000);
  ck_assert_uint_eq(fired_in_all, LENGTH(timers));
  /* And one until the end. */
  ck_assert_uint_le(virtual_time_sleeps() - sleeps, LENGTH(timers) + 1);
  ck_assert_uint_le(virtual_time_polls() - polls, 2 * LENGTH(timers) + 4);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("rates");
  TCase *own = loop_tcase(suite, "callbacks of the wheel");
  TCase *others = loop_tcase(suite, "beside others");
  TCase *never_quiet = loop_tcase(suite, "never quiet");
  TCase *by_hand = loop_tcase(suite, "by hand");

  tcase_add_loop_test(own, a_repeat_whose_callback_is_slow_keeps_its_rate, 0,
                      (int)LENGTH(slow_callbacks));
  tcase_add_loop_test(others, a_repeat_beside_a_uv_timer_keeps_its_rate, 0,
                      (int)LENGTH(beside));
  tcase_add_loop_test(never_quiet, a_loop_that_is_never_quiet_has_its_repeats,
                      0, (int)LENGTH(noises));
  tcase_add_loop_test(never_quiet,
                      in_a_loop_that_is_never_quiet_timers_are_late_by_little,
                      0, (int)LENGTH(noises));
  tcase_add_loop_test(never_quiet,
                      a_mass_expiry_goes_on_in_a_loop_that_is_never_quiet, 0,
                      (int)LENGTH(crowded));
  tcase_add_test(own, what_callbacks_of_the_soonest_take_is_no_stall);
  tcase_add_test(never_quiet, a_walk_that_runs_the_loop_fires_nothing);
  tcase_add_test(never_quiet,
                 a_clock_that_steps_back_does_not_prolong_the_wait_for_quiet);
  tcase_add_loop_test(by_hand,
                      a_program_that_drives_the_loop_by_hand_is_not_deaf, 0, 4);
  tcase_add_test(by_hand, a_turn_adds_no_sleep);
  return run_suite(suite);
}
