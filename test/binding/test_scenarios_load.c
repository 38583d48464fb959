/* SPDX-License-Identifier: MIT */

/* Scenarios of timers beside the other work of a busy loop; see
 * test_scenarios.c. */

#include <stdlib.h>

#include "echo_pair.h"
#include "support.h"

#define TICK_MS 10

static echo_t echo;

/* ---- I/O goes on --------------------------------------------------------- */

#define RESTARTS 500

/* Each callback sends a ping, and finds the echoes of the callbacks before it:
 * an echo takes two polls. A slow callback blocks the loop for longer than a
 * tick. */
static void
ping_and_restart(test_timer_t *timer)
{
  const uint64_t *block_ms = timer->arg;

  ck_assert_uint_le(echo.pings, echo.pongs + 2);
  virtual_time_advance_ms(*block_ms);
  if (timer->fired == RESTARTS)
    return;
  echo_ping(&echo);
  if (uvwheel_timer_get_repeat(&timer->base) == 0)
    test_timer_start(timer, 0, 0);
}

static const struct {
  const char *name;
  uint64_t tick_ms;
  uint64_t block_ms;
} restarts[] = {
    {"in no time, fine ticks", 1, 0},
    {"in a tick, fine ticks", 1, 1},
    {"in 10 ticks, fine ticks", 1, TICK_MS},
    {"in 50 ticks, fine ticks", 1, 5 * TICK_MS},
    {"in no time", TICK_MS, 0},
    {"in less than a tick", TICK_MS, 1},
    {"in a tick", TICK_MS, TICK_MS},
    {"in 5 ticks", TICK_MS, 5 * TICK_MS},
};

/* P3. libuv#4245, #4250. */
START_TEST(a_callback_that_restarts_itself_at_0_for_ever_leaves_io_alone)
{
  uint64_t block_ms = restarts[_i].block_ms;
  static test_timer_t timer;

  open_wheel(restarts[_i].tick_ms, 8);
  echo_open(&echo, &loop);
  test_timer_init(&timer);
  timer.then = ping_and_restart;
  timer.arg = &block_ms;
  test_timer_start(&timer, 0, 0);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  require_in(restarts[_i].name, timer.fired == RESTARTS);
  require_in(restarts[_i].name, echo.pongs >= RESTARTS - 3);
  echo_close(&echo);
}
END_TEST

#define RIVALS 3

static uvwheel_t rivals[RIVALS];
static uvwheel_timer_t rival_timers[RIVALS];
static uint64_t polls_before[RIVALS];

/* It takes longer than a tick, so that meanwhile the others become due. */
static void
on_rival(uvwheel_timer_t *timer)
{
  uint64_t *before = &polls_before[timer - rival_timers];

  ck_assert_uint_lt(*before, virtual_time_polls());
  *before = virtual_time_polls();
  virtual_time_advance_ms(2);
  uv_update_time(&loop);
  fired_in_all++;
}

/* libuv#4250, with wheels that are never late one by one: together they must
 * not go on among themselves. */
START_TEST(wheels_whose_callbacks_take_longer_than_a_tick_leave_io_alone)
{
  const uvwheel_options_t options = {.tick_ms = 1};
  const uint64_t repeat_ms = (uint64_t)_i;
  unsigned i;

  for (i = 0; i < RIVALS; i++) {
    ck_assert_int_eq(uvwheel_init(&loop, &rivals[i], &options), 0);
    ck_assert_int_eq(uvwheel_timer_init(&rivals[i], &rival_timers[i]), 0);
    ck_assert_int_eq(
        uvwheel_timer_start(&rival_timers[i], on_rival, repeat_ms, repeat_ms),
        0);
  }
  run_for(1000);
  ck_assert_uint_ge(fired_in_all, 300);
  for (i = 0; i < RIVALS; i++)
    uvwheel_close(&rivals[i], NULL);
  run_for(0);
}
END_TEST

static test_timer_t crowd[1000];

static void
start_another(uv_prepare_t *prepare)
{
  static size_t next;

  (void)prepare;
  virtual_time_advance_ms(1);
  if (next == LENGTH(crowd))
    return;
  test_timer_start(&crowd[next], next % 3 * 1000, 0);
  next++;
}

static void
do_nothing(uv_idle_t *idle)
{
  (void)idle;
}

/* bun#33359. An idle handle keeps the loop from sleeping, and in each iteration
 * another timer is started. */
START_TEST(starts_in_every_iteration_do_not_starve_an_overdue_timer)
{
  static uv_prepare_t prepare;
  static uv_idle_t idle;
  static test_timer_t timer;

  open_wheel(TICK_MS, 8);
  test_timer_init(&timer);
  test_timer_init_all(crowd, LENGTH(crowd));
  uv_prepare_init(&loop, &prepare);
  uv_prepare_start(&prepare, start_another);
  uv_idle_init(&loop, &idle);
  uv_idle_start(&idle, do_nothing);
  test_timer_start(&timer, 50, 0);
  while (uv_now(&loop) < START_MS + 70)
    uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_le(timer.fired_ms, tick_ms_after(TICK_MS, timer.due_ms) + 2);
  uv_close((uv_handle_t *)&prepare, NULL);
  uv_close((uv_handle_t *)&idle, NULL);
}
END_TEST

/* ---- When the loop sleeps and ends --------------------------------------- */

static const struct {
  const char *name;
  bool wheel, timer;
} unrefs[] = {{"nothing is unref'd", false, false},
              {"an unref'd wheel", true, false},
              {"an unref'd timer", false, true},
              {"both unref'd", true, true}};

/* bun#37096. */
START_TEST(after_the_last_stop_the_wheel_does_not_bound_the_poll)
{
  static uv_async_t forever;
  static test_timer_t timers[2];

  open_wheel(TICK_MS, 8);
  test_timer_init_all(timers, 2);
  ck_assert_int_eq(uv_async_init(&loop, &forever, NULL), 0);
  uv_run(&loop, UV_RUN_NOWAIT); /* or libuv says 0, to be run first */
  ck_assert_int_eq(uv_backend_timeout(&loop), -1);
  if (unrefs[_i].wheel)
    uvwheel_unref(&wheel);
  if (unrefs[_i].timer)
    uvwheel_timer_unref(&timers[0].base);
  test_timer_start(&timers[0], 5000, 0);
  test_timer_start(&timers[1], 500, 0);
  require_in(unrefs[_i].name, uv_backend_timeout(&loop) > 500);
  require_in(unrefs[_i].name, uv_backend_timeout(&loop) <= 500 + TICK_MS);
  test_timer_stop(&timers[1]);
  test_timer_stop(&timers[0]);
  require_in(unrefs[_i].name, uv_backend_timeout(&loop) == -1);
  uv_close((uv_handle_t *)&forever, NULL);
}
END_TEST

/* node#16105, libuv#4048. */
START_TEST(an_unref_d_wheel_lets_the_loop_end_and_a_ref_d_one_does_not)
{
  static test_timer_t timer;

  open_wheel(TICK_MS, 8);
  test_timer_init(&timer);
  test_timer_start(&timer, 1000, 0);
  uvwheel_unref(&wheel);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(timer.fired, 0);
  ck_assert_uint_lt(uv_now(&loop), START_MS + 1000);
  uvwheel_ref(&wheel);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(timer.fired, 1);
}
END_TEST

/* ---- Mass expiry --------------------------------------------------------- */

#define MILLION 1000000u
#define BUDGET 10000u

static uvwheel_timer_t *mass;
static unsigned mass_fired, mass_stopped, fired_before, iterations, errors;

static void
on_mass(uvwheel_timer_t *timer)
{
  /* It must not come again. (An assertion for each takes check too long.) */
  errors += timer->data == NULL;
  timer->data = NULL;
  mass_fired++;
}

static void
start_mass(unsigned count, uvwheel_timer_cb cb)
{
  unsigned i;

  mass_fired = mass_stopped = fired_before = iterations = errors = 0;
  mass = calloc(count, sizeof *mass);
  ck_assert_ptr_nonnull(mass);
  for (i = 0; i < count; i++) {
    errors += uvwheel_timer_init(&wheel, &mass[i]) != 0;
    mass[i].data = mass;
    errors += uvwheel_timer_start(&mass[i], cb, 5, 0) != 0;
  }
  ck_assert_uint_eq(errors, 0);
  ck_assert_uint_eq(uvwheel_count(&wheel), count);
}

/* After each iteration, which takes its time: no more than the budget fired, an
 * echo is on its way, and some of the timers that are due are stopped. */
static void
on_iteration(uv_check_t *check)
{
  unsigned i, found = 0;

  (void)check;
  virtual_time_advance_ms(1);
  ck_assert_uint_le(mass_fired - fired_before, BUDGET);
  if (mass_fired > fired_before)
    iterations++;
  fired_before = mass_fired;
  for (i = 0; i < MILLION && found < 1000; i += 7)
    if (uvwheel_timer_is_active(&mass[i])) {
      errors += uvwheel_timer_stop(&mass[i]) != 0;
      mass[i].data = NULL;
      found++;
    }
  mass_stopped += mass_fired > 0 ? found : 0;
  ck_assert_uint_le(echo.pings, echo.pongs + 3);
  if (uvwheel_count(&wheel) > 0)
    echo_ping(&echo);
}

/* P8. netty#11724, hertzbeat#4328, libuv#4245. */
START_TEST(a_million_timers_due_at_once_leave_room_for_io_and_stops)
{
  const uvwheel_options_t options = {
      .tick_ms = TICK_MS, .turn_budget = BUDGET, .flags = slot_kinds[_i].flags};
  static uv_check_t check;
  unsigned i, left = 0;

  open_wheel_with(&options);
  echo_open(&echo, &loop);
  uv_check_init(&loop, &check);
  uv_check_start(&check, on_iteration);
  uv_unref((uv_handle_t *)&check);
  start_mass(MILLION, on_mass);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(stats_of_wheel().fired, mass_fired);
  ck_assert_uint_eq(stats_of_wheel().stopped, MILLION - mass_fired);
  ck_assert_uint_gt(mass_stopped, 10000);
  ck_assert_uint_ge(iterations, mass_fired / BUDGET);
  ck_assert_uint_ge(echo.pongs, iterations - 3);
  for (i = 0; i < MILLION; i++)
    left += mass[i].data != NULL || uvwheel_timer_is_active(&mass[i]);
  require_in(slot_kinds[_i].name, left == 0);
  require_in(slot_kinds[_i].name, errors == 0);
  free(mass);
  echo_close(&echo);
  uv_close((uv_handle_t *)&check, NULL);
}
END_TEST

#define CROWD 100000u

static void
close_wheel_half_way(uvwheel_timer_t *timer)
{
  on_mass(timer);
  if (mass_fired == CROWD / 2)
    uvwheel_close(&wheel, on_wheel_closed);
}

static void
forget_closed_wheel(uvwheel_t *closed)
{
  on_wheel_closed(closed);
  forget_wheel();
}

static void
close_wheel(void)
{
  uvwheel_close(&wheel, forget_closed_wheel);
}

static void
close_in_a_batch(void)
{
  run_for(100);
}

static const struct {
  const char *name;
  uvwheel_timer_cb cb;
  void (*close)(void);
  unsigned fired;
} crowd_closes[] = {
    {"from outside", on_mass, close_wheel, 0},
    {"in the middle of a batch", close_wheel_half_way, close_in_a_batch,
     CROWD / 2},
};

/* netty (source), folly's DeleteWheelInTimeout, libuv#2416, netty#366. */
START_TEST(close_with_a_crowd_pending_silences_it_and_leaves_it_reusable)
{
  const uvwheel_options_t options = {.tick_ms = TICK_MS,
                                     .turn_budget = UINT32_MAX};
  unsigned i, active = 0;

  open_wheel_with(&options);
  start_mass(CROWD, crowd_closes[_i].cb);
  crowd_closes[_i].close();
  run_for(1000);
  require_in(crowd_closes[_i].name, wheels_closed == 1);
  require_in(crowd_closes[_i].name, mass_fired == crowd_closes[_i].fired);
  for (i = 0; i < CROWD; i++)
    active += (unsigned)uvwheel_timer_is_active(&mass[i]);
  ck_assert_uint_eq(active, 0);
  free(mass);

  open_wheel_with(&options);
  start_mass(CROWD, on_mass);
  run_for(1000);
  ck_assert_uint_eq(mass_fired, CROWD);
  ck_assert_uint_eq(errors, 0);
  free(mass);
}
END_TEST

static void
stop_the_loop(test_timer_t *timer)
{
  (void)timer;
  uv_stop(&loop);
}

#define STOPPERS 20

static void
stop_in(int number, uint32_t turn_budget)
{
  const uvwheel_options_t options = {.tick_ms = TICK_MS,
                                     .turn_budget = turn_budget};
  static test_timer_t timers[STOPPERS];
  int i;

  open_wheel_with(&options);
  fired_in_all = 0;
  test_timer_init_all(timers, STOPPERS);
  for (i = 0; i < STOPPERS; i++)
    test_timer_start(&timers[i], i < 10 ? 5 : 95, 0);
  timers[number].then = stop_the_loop;
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_uint_eq(timers[number].fired, 1);
  ck_assert_uint_le(fired_in_all, number < 10 ? 10 : 20);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  for (i = 0; i < STOPPERS; i++)
    ck_assert_uint_eq(timers[i].fired, 1);
  close_and_forget_wheel();
}

/* What uv_stop leaves behind, the next uv_run does. */
START_TEST(uv_stop_inside_a_callback_loses_and_repeats_nothing)
{
  static const uint32_t budgets[] = {1, 7, UINT32_MAX};
  size_t i;

  for (i = 0; i < LENGTH(budgets); i++)
    stop_in(_i, budgets[i]);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("scenarios under load");
  TCase *io = loop_tcase(suite, "I/O");
  TCase *sleep = loop_tcase(suite, "sleep");
  TCase *mass_expiry = loop_tcase(suite, "mass expiry");

  tcase_add_loop_test(
      io, a_callback_that_restarts_itself_at_0_for_ever_leaves_io_alone, 0,
      (int)LENGTH(restarts));
  tcase_add_loop_test(
      io, wheels_whose_callbacks_take_longer_than_a_tick_leave_io_alone, 1, 7);
  tcase_add_test(io, starts_in_every_iteration_do_not_starve_an_overdue_timer);
  tcase_add_loop_test(sleep,
                      after_the_last_stop_the_wheel_does_not_bound_the_poll, 0,
                      (int)LENGTH(unrefs));
  tcase_add_test(sleep,
                 an_unref_d_wheel_lets_the_loop_end_and_a_ref_d_one_does_not);
  tcase_add_loop_test(mass_expiry,
                      a_million_timers_due_at_once_leave_room_for_io_and_stops,
                      0, SLOT_KINDS);
  tcase_add_loop_test(
      mass_expiry,
      close_with_a_crowd_pending_silences_it_and_leaves_it_reusable, 0,
      (int)LENGTH(crowd_closes));
  tcase_add_loop_test(mass_expiry,
                      uv_stop_inside_a_callback_loses_and_repeats_nothing, 0,
                      STOPPERS);
  return run_suite(suite);
}
