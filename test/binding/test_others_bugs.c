/* SPDX-License-Identifier: MIT */

/* What burnt the users of other timers: each test names the issue of another
 * project that it comes from. */

#include <stdlib.h>

#include "echo_pair.h"
#include "support.h"

#define TICK_MS 10
#define SLOTS 8
#define ROUND_MS (TICK_MS * SLOTS)

#define DAY_MS (24 * 3600 * UINT64_C(1000))

/* ---- Life of a timer ----------------------------------------------------- */

/* Which of several timers of one tick comes first must be known. */
static void
open_fifo(void)
{
  const uvwheel_options_t options = {
      .tick_ms = TICK_MS, .slots = SLOTS, .flags = UVWHEEL_FIFO};

  open_wheel_with(&options);
}

static void
free_itself(test_timer_t *timer)
{
  free(timer);
}

/* Which of the timers of one tick does it. */
static const struct {
  const char *name;
  unsigned count;
  unsigned which;
} frees[] = {{"alone", 1, 0},
             {"the first", 5, 0},
             {"in the middle", 5, 2},
             {"the last", 5, 4}};

/* Scenario 1. linmo#27, libuv#180, mediasoup#214. */
START_TEST(a_callback_may_free_its_own_timer)
{
  unsigned count = frees[_i].count, i;
  static test_timer_t *timers[5];

  open_fifo();
  for (i = 0; i < count; i++) {
    timers[i] = malloc(sizeof *timers[i]);
    ck_assert_ptr_nonnull(timers[i]);
    test_timer_init(timers[i]);
    test_timer_start(timers[i], 5, 0);
  }
  timers[frees[_i].which]->then = free_itself;
  run_for(100);
  require_in(frees[_i].name, fired_in_all == count);
  for (i = 0; i < count; i++)
    if (i != frees[_i].which)
      free(timers[i]);
}
END_TEST

static void
stop_and_free_neighbour(test_timer_t *timer)
{
  test_timer_t **neighbour = timer->arg;

  if (*neighbour == NULL)
    return;
  test_timer_stop(*neighbour);
  memset(*neighbour, 0xA5, sizeof **neighbour);
  free(*neighbour);
  *neighbour = NULL;
}

#define NEIGHBOURS 6

static void
stop_one_inside_callback(int actor, int victim)
{
  static test_timer_t *timers[NEIGHBOURS];
  int i;

  open_fifo();
  fired_in_all = 0;
  for (i = 0; i < NEIGHBOURS; i++) {
    timers[i] = malloc(sizeof *timers[i]);
    ck_assert_ptr_nonnull(timers[i]);
    test_timer_init(timers[i]);
    test_timer_start(timers[i], 5, 0);
  }
  timers[actor]->then = stop_and_free_neighbour;
  timers[actor]->arg = &timers[victim];
  run_for(1000);
  ck_assert_ptr_null(timers[victim]);
  ck_assert_uint_eq(fired_in_all, victim > actor ? NEIGHBOURS - 1 : NEIGHBOURS);
  for (i = 0; i < NEIGHBOURS; i++)
    if (i != victim) {
      ck_assert_uint_eq(timers[i]->fired, 1);
      free(timers[i]);
    }
  close_and_forget_wheel();
}

/* Scenario 2. muduo#668, ModernUO#782, connectedhomeip#19387. Each stops each
 * other one, which is free at once (netty#2541, kafka#15902). */
START_TEST(stop_inside_callback_silences_a_neighbour_of_the_same_tick)
{
  int victim;

  for (victim = 0; victim < NEIGHBOURS; victim++)
    if (victim != _i)
      stop_one_inside_callback(_i, victim);
}
END_TEST

static void
restart_neighbour(test_timer_t *timer)
{
  test_timer_start(timer->arg, 3 * ROUND_MS, 0);
}

/* Scenario 3. ModernUO#705. */
START_TEST(a_neighbour_restarted_in_a_callback_fires_at_its_new_time_alone)
{
  static test_timer_t timers[3];
  uint64_t due_ms;

  open_fifo();
  test_timer_init_all(timers, 3);
  timers[0].then = restart_neighbour;
  timers[0].arg = &timers[2];
  test_timer_start(&timers[0], 5, 0);
  test_timer_start(&timers[1], 5, 0);
  test_timer_start(&timers[2], 5, 0);
  run_for(fires_at(timers[0].due_ms) - uv_now(&loop));
  ck_assert_uint_eq(fired_in_all, 2);
  ck_assert_uint_eq(timers[2].fired, 0);
  due_ms = uv_now(&loop) + 3 * ROUND_MS;
  ck_assert_uint_eq(timers[2].due_ms, due_ms);
  run_for(1000);
  ck_assert_uint_eq(timers[2].fired, 1);
  ck_assert_uint_eq(timers[2].fired_ms, fires_at(due_ms));
}
END_TEST

static void
stop_and_start_itself(test_timer_t *timer)
{
  timer->then = NULL;
  test_timer_stop(timer);
  test_timer_start(timer, 50, 0);
  test_timer_stop(timer);
  test_timer_start(timer, 5, 0);
}

static const uint64_t repeats_ms[] = {0, 70};

/* Scenario 4. ModernUO#705, h2o#1958. */
START_TEST(a_timer_stopped_and_started_in_its_callback_fires_once_more)
{
  static test_timer_t timer;

  open_wheel(TICK_MS, SLOTS);
  test_timer_init(&timer);
  timer.then = stop_and_start_itself;
  test_timer_start(&timer, 5, repeats_ms[_i]);
  run_for(fires_at(timer.due_ms) - START_MS);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer.base), 1);
  ck_assert_uint_eq(uvwheel_count(&wheel), 1);
  run_for(1000);
  ck_assert_uint_eq(timer.fired, 2);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
}
END_TEST

/* ---- Time ---------------------------------------------------------------- */

static const uint64_t spans[] = {0,           ROUND_MS - TICK_MS, ROUND_MS - 1,
                                 ROUND_MS,    ROUND_MS + 1,       TICK_MS,
                                 2 * ROUND_MS};

static void
rearm_itself(test_timer_t *timer)
{
  test_timer_start(timer, *(const uint64_t *)timer->arg, 0);
}

/* Scenario 5. akka-core#1016, nebula#802, rpc-perf#180. */
START_TEST(a_timer_rearmed_by_about_a_round_is_not_of_this_dispatch)
{
  uint64_t span_ms = spans[_i], fired_ms = 0;
  static test_timer_t timer;
  int i;

  open_wheel(TICK_MS, SLOTS);
  test_timer_init(&timer);
  timer.then = rearm_itself;
  timer.arg = &span_ms;
  test_timer_start(&timer, 0, 0);
  for (i = 0; i < 3 * SLOTS; i++) {
    uint64_t tick_ms = fires_at(timer.due_ms);
    ck_assert_uint_gt(tick_ms, fired_ms);
    run_for(tick_ms - uv_now(&loop));
    ck_assert_uint_eq(timer.fired, (unsigned)i + 1);
    ck_assert_uint_eq(timer.fired_ms, tick_ms);
    fired_ms = tick_ms;
  }
  test_timer_stop(&timer);
}
END_TEST

/* Scenario 8. agrona#73, camunda#767, tokio-core#2. */
START_TEST(a_jump_of_several_rounds_fires_what_is_due_once_and_no_more)
{
  const uint64_t jump_ms = ROUND_MS * 7 / 2;
  static test_timer_t timers[60];
  size_t i;

  open_wheel_without_stalls(TICK_MS, SLOTS);
  test_timer_init_all(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], i * TICK_MS, 0);
  virtual_time_advance_ms(jump_ms);
  run_for(0);
  for (i = 0; i < LENGTH(timers); i++)
    ck_assert_uint_eq(timers[i].fired,
                      fires_at(timers[i].due_ms) <= START_MS + jump_ms ? 1 : 0);
  run_for(1000);
  for (i = 0; i < LENGTH(timers); i++) {
    uint64_t tick_ms = fires_at(timers[i].due_ms);
    ck_assert_uint_eq(timers[i].fired, 1);
    ck_assert_uint_eq(timers[i].fired_ms, tick_ms < START_MS + jump_ms
                                              ? START_MS + jump_ms
                                              : tick_ms);
  }
}
END_TEST

/* Scenario 9. RussellLuo/timingwheel#45, libuv#4245, #4250. */
START_TEST(a_short_timer_started_while_catching_up_is_neither_early_nor_endless)
{
  static uint64_t short_ms;
  static test_timer_t timers[30];
  size_t i;

  short_ms = (uint64_t)_i;
  open_wheel_without_stalls(TICK_MS, SLOTS);
  test_timer_init_all(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++) {
    timers[i].then = rearm_itself;
    timers[i].arg = &short_ms;
    test_timer_start(&timers[i], i * 17, 0);
  }
  virtual_time_advance_ms(10000);
  run_turn();
  ck_assert_uint_eq(fired_in_all, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++) {
    timers[i].then = NULL;
    ck_assert_uint_eq(uvwheel_timer_get_due_in(&timers[i].base), short_ms);
  }
  run_for(short_ms + TICK_MS);
  for (i = 0; i < LENGTH(timers); i++)
    ck_assert_uint_eq(timers[i].fired_ms,
                      fires_at(START_MS + 10000 + short_ms));
}
END_TEST

/* P5. Scenario 10. netty#7760, haproxy#109, uWebSockets.js#1025. */
START_TEST(huge_timeouts_do_not_fire_before_their_time)
{
  static const uint64_t huge_ms[] = {UINT32_MAX / 2,
                                     (uint64_t)UINT32_MAX / 2 + 1,
                                     (uint64_t)UINT32_MAX / 2 + 2,
                                     UINT32_MAX,
                                     (uint64_t)UINT32_MAX + 1,
                                     (uint64_t)UINT32_MAX + 2,
                                     INT64_MAX,
#ifndef UVWHEEL_CHECKS /* which takes these for negative differences */
                                     (uint64_t)INT64_MAX + 1,
                                     UINT64_MAX - START_MS,
                                     UINT64_MAX - 1,
#endif
                                     UINT64_MAX};
  static test_timer_t timers[LENGTH(huge_ms)];
  size_t i;

  open_wheel(TICK_MS, SLOTS);
  test_timer_init_all(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++) {
    test_timer_start(&timers[i], huge_ms[i], huge_ms[i]);
    test_timer_refresh(&timers[i]);
    test_timer_again(&timers[i]);
  }
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, 0);
  run_for((uint64_t)UINT32_MAX + 100);
  for (i = 0; i < LENGTH(timers); i++) {
    ck_assert_uint_eq(timers[i].fired, i < 3 ? 2 : i < 6);
    ck_assert_int_eq(uvwheel_timer_is_active(&timers[i].base), 1);
  }
  rewind_clock();
}
END_TEST

/* Scenario 11. tokio#8334. */
START_TEST(years_of_uptime_make_no_timer_early_or_late)
{
  static const uint64_t uptimes_ms[] = {12 * DAY_MS, INT32_MAX, UINT32_MAX,
                                        3652 * DAY_MS};
  static test_timer_t pending, timer;
  size_t i;

  open_wheel(TICK_MS, SLOTS);
  test_timer_init(&pending);
  test_timer_init(&timer);
  test_timer_start(&pending, 3653 * DAY_MS, 0);
  for (i = 0; i < LENGTH(uptimes_ms); i++) {
    run_for(START_MS + uptimes_ms[i] - uv_now(&loop) - 100);
    while (uv_now(&loop) < START_MS + uptimes_ms[i] + 100)
      expect_punctual(&timer, 17);
  }
  ck_assert_uint_eq(pending.fired, 0);
  run_for(2 * DAY_MS);
  ck_assert_uint_eq(pending.fired, 1);
  ck_assert_uint_eq(pending.fired_ms, fires_at(pending.due_ms));
  rewind_clock();
}
END_TEST

/* Scenario 12. haproxy#2704, h2o source. */
START_TEST(a_clock_that_steps_back_fires_nothing_early)
{
  static const uint64_t back_ms[] = {1, TICK_MS, ROUND_MS, 5000, 900000};
  static test_timer_t timers[20], timer;
  size_t i;

  open_wheel(TICK_MS, SLOTS);
  test_timer_init_all(timers, LENGTH(timers));
  test_timer_init(&timer);
  run_for(1000);
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], i * 13, i % 3 ? 0 : 29);
  run_for(50);
  virtual_time_step_back_ms(back_ms[_i]);
  i = fired_in_all;
  run_for(back_ms[_i] - 1);
  ck_assert_uint_eq(fired_in_all, i);
  virtual_time_step_back_ms(back_ms[_i] - 1);
  expect_punctual(&timer, 30);
  run_for(back_ms[_i] + 1000);
  for (i = 0; i < LENGTH(timers); i++) {
    if (i % 3)
      ck_assert_uint_eq(timers[i].fired, 1);
    else
      ck_assert_uint_gt(timers[i].fired, 20);
  }
}
END_TEST

#define HOUR_MS UINT64_C(3600000)

/* Scenario 12. Repeats, too, fire once when the clock leaps ahead, and not at
 * all when it steps back. */
START_TEST(a_clock_that_leaps_by_hours_fires_what_is_due_once)
{
  static const int64_t leaps_h[] = {8, -1, 3, -2, 8, -5, 100, -99};
  static const uint64_t every_ms[] = {20, 1000, 60000, HOUR_MS};
  static test_timer_t once[40], beats[LENGTH(every_ms)], timer;
  uint64_t latest_ms = 0;
  unsigned fired[LENGTH(every_ms)];
  size_t i, which;

  open_wheel_without_stalls(TICK_MS, SLOTS);
  test_timer_init_all(once, LENGTH(once));
  test_timer_init_all(beats, LENGTH(beats));
  test_timer_init(&timer);
  run_for(10 * HOUR_MS);
  for (i = 0; i < LENGTH(once); i++)
    test_timer_start(&once[i], i * HOUR_MS / 2 + 17, 0);
  for (i = 0; i < LENGTH(beats); i++)
    test_timer_start(&beats[i], every_ms[i], every_ms[i]);
  for (which = 0; which < LENGTH(leaps_h); which++) {
    expect_punctual(&timer, 2 * ROUND_MS);
    for (i = 0; i < LENGTH(beats); i++)
      fired[i] = beats[i].fired;
    virtual_time_set_ns(virtual_time_ns() +
                        (uint64_t)leaps_h[which] * HOUR_MS * 1000000);
    run_turn();
    for (i = 0; i < LENGTH(beats); i++)
      ck_assert_msg(beats[i].fired - fired[i] == (leaps_h[which] > 0),
                    "leap %d, beat %d", (int)which, (int)i);
    latest_ms = latest_ms < uv_now(&loop) ? uv_now(&loop) : latest_ms;
    for (i = 0; i < LENGTH(once); i++)
      ck_assert_msg(once[i].fired == (fires_at(once[i].due_ms) <= latest_ms),
                    "leap %d, timer %d", (int)which, (int)i);
  }
  rewind_clock();
}
END_TEST

/* ---- Beside other work --------------------------------------------------- */

static echo_t echo;

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

/* P3. Scenario 6. libuv#4245, #4250. */
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

/* Scenario 15. bun#33359. An idle handle keeps the loop from sleeping, and in
 * each iteration another timer is started. */
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
  ck_assert_uint_le(timer.fired_ms, fires_at(timer.due_ms) + 2);
  uv_close((uv_handle_t *)&prepare, NULL);
  uv_close((uv_handle_t *)&idle, NULL);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      EACH(a_callback_may_free_its_own_timer, frees),
      {stop_inside_callback_silences_a_neighbour_of_the_same_tick, 0,
       NEIGHBOURS},
      TEST(a_neighbour_restarted_in_a_callback_fires_at_its_new_time_alone),
      EACH(a_timer_stopped_and_started_in_its_callback_fires_once_more,
           repeats_ms),
      EACH(a_timer_rearmed_by_about_a_round_is_not_of_this_dispatch, spans),
      TEST(a_jump_of_several_rounds_fires_what_is_due_once_and_no_more),
      {a_short_timer_started_while_catching_up_is_neither_early_nor_endless, 0,
       15},
      TEST(huge_timeouts_do_not_fire_before_their_time),
      TEST(years_of_uptime_make_no_timer_early_or_late),
      {a_clock_that_steps_back_fires_nothing_early, 0, 5},
      TEST(a_clock_that_leaps_by_hours_fires_what_is_due_once),
      EACH(a_callback_that_restarts_itself_at_0_for_ever_leaves_io_alone,
           restarts),
      TEST(starts_in_every_iteration_do_not_starve_an_overdue_timer),
  };

  return run_loop_tests("others_bugs", tests, LENGTH(tests));
}
