/* SPDX-License-Identifier: MIT */

/* Scenarios that burnt the users of other timers, on the binding: what
 * callbacks and the clock do to timers. The comments name the issues of other
 * projects that they come from; docs/promises.md says what happened there.
 * test_scenarios_load.c has more. */

#include <stdlib.h>

#include "support.h"

#define TICK_MS 10
#define SLOTS 8
#define ROUND_MS (TICK_MS * SLOTS)

#define DAY_MS (24 * 3600 * UINT64_C(1000))

/* Which of several timers of one tick comes first must be known. */
static void
open_fifo(void)
{
  const uvwheel_options_t options = {
      .tick_ms = TICK_MS, .slots = SLOTS, .flags = UVWHEEL_FIFO};

  open_wheel_with(&options);
}

static void
open_lanes(void)
{
  open_wheel(TICK_MS, SLOTS);
}

static void
free_itself(test_timer_t *timer)
{
  free(timer);
}

static void
stop_and_free_itself(test_timer_t *timer)
{
  test_timer_stop(timer);
  free(timer);
}

/* Which of several timers of a tick frees itself, and how it was started. */
static const struct {
  void (*open)(void);
  int count;
  int freed;
  uint64_t repeat;
  void (*then)(test_timer_t *);
} freed[] = {
    /* the only one */
    {open_lanes, 1, 0, 0, free_itself},
    {open_lanes, 1, 0, 500, stop_and_free_itself},
    {open_fifo, 1, 0, 0, free_itself},
    {open_fifo, 1, 0, 500, stop_and_free_itself},
    /* the first */
    {open_lanes, 5, 0, 0, free_itself},
    {open_fifo, 5, 0, 0, free_itself},
    {open_fifo, 5, 0, 500, stop_and_free_itself},
    /* one in the middle */
    {open_lanes, 5, 2, 500, stop_and_free_itself},
    {open_fifo, 5, 2, 0, free_itself},
    {open_fifo, 5, 2, 500, stop_and_free_itself},
    /* the last */
    {open_lanes, 5, 4, 0, free_itself},
    {open_fifo, 5, 4, 0, free_itself},
    {open_fifo, 5, 4, 500, stop_and_free_itself},
};

/* linmo#27, libuv#180, mediasoup#214. */
START_TEST(a_callback_may_free_its_own_timer)
{
  int count = freed[_i].count, i;
  test_timer_t *timers[5];

  freed[_i].open();
  for (i = 0; i < count; i++) {
    timers[i] = malloc(sizeof *timers[i]);
    ck_assert_ptr_nonnull(timers[i]);
    test_timer_init(timers[i]);
    test_timer_start(timers[i], 5, freed[_i].repeat);
    if (i == freed[_i].freed)
      timers[i]->then = freed[_i].then;
  }
  run_for(100);
  ck_assert_uint_eq(fired_in_all, (unsigned)count);
  for (i = 0; i < count; i++)
    if (i != freed[_i].freed) {
      ck_assert_uint_eq(timers[i]->fired, 1);
      test_timer_stop(timers[i]);
      free(timers[i]);
    }
}
END_TEST

static void
stop_and_free_peer(test_timer_t *timer)
{
  test_timer_t **peer = timer->arg;

  if (*peer == NULL)
    return;
  test_timer_stop(*peer);
  memset(*peer, 0xA5, sizeof **peer);
  free(*peer);
  *peer = NULL;
}

#define PEERS 6

static void
stop_one_inside_callback(int actor, int victim)
{
  static test_timer_t *timers[PEERS];
  int i;

  open_fifo();
  fired_in_all = 0;
  for (i = 0; i < PEERS; i++) {
    timers[i] = malloc(sizeof *timers[i]);
    ck_assert_ptr_nonnull(timers[i]);
    test_timer_init(timers[i]);
    test_timer_start(timers[i], 5, 0);
  }
  timers[actor]->then = stop_and_free_peer;
  timers[actor]->arg = &timers[victim];
  run_for(1000);
  ck_assert_ptr_null(timers[victim]);
  ck_assert_uint_eq(fired_in_all, victim > actor ? PEERS - 1 : PEERS);
  for (i = 0; i < PEERS; i++)
    if (i != victim) {
      ck_assert_uint_eq(timers[i]->fired, 1);
      free(timers[i]);
    }
  close_and_forget_wheel();
}

/* muduo#668, ModernUO#782, connectedhomeip#19387. Each stops each other one. */
START_TEST(stop_inside_callback_silences_a_peer_of_the_same_tick)
{
  int victim;

  for (victim = 0; victim < PEERS; victim++)
    if (victim != _i)
      stop_one_inside_callback(_i, victim);
}
END_TEST

static void
restart_peer(test_timer_t *timer)
{
  test_timer_start(timer->arg, 3 * ROUND_MS, 0);
}

static void
refresh_peer(test_timer_t *timer)
{
  ck_assert_int_eq(uvwheel_timer_refresh(&((test_timer_t *)timer->arg)->base),
                   0);
  ((test_timer_t *)timer->arg)->due_ms = uv_now(&loop) + 5;
}

static const struct {
  const char *name;
  void (*act)(test_timer_t *);
  uint64_t delay_ms;
} delays[] = {{"restarted", restart_peer, 3 * ROUND_MS},
              {"refreshed", refresh_peer, 5}};

/* ModernUO#705. */
START_TEST(a_peer_restarted_in_a_callback_fires_at_its_new_time_alone)
{
  const char *name = delays[_i].name;
  static test_timer_t timers[3];
  uint64_t due_ms;

  open_fifo();
  test_timer_init_all(timers, 3);
  timers[0].then = delays[_i].act;
  timers[0].arg = &timers[2];
  test_timer_start(&timers[0], 5, 0);
  test_timer_start(&timers[1], 5, 0);
  test_timer_start(&timers[2], 5, 0);
  run_for(tick_ms_after(TICK_MS, timers[0].due_ms) - uv_now(&loop));
  require_in(name, fired_in_all == 2);
  require_in(name, timers[2].fired == 0);
  due_ms = uv_now(&loop) + delays[_i].delay_ms;
  require_in(name, timers[2].due_ms == due_ms);
  run_for(1000);
  require_in(name, timers[2].fired == 1);
  require_in(name, timers[2].fired_ms == tick_ms_after(TICK_MS, due_ms));
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

/* ModernUO#705, h2o#1958. */
START_TEST(a_timer_stopped_and_started_in_its_callback_fires_once_more)
{
  static test_timer_t timer;

  open_wheel(TICK_MS, SLOTS);
  test_timer_init(&timer);
  timer.then = stop_and_start_itself;
  test_timer_start(&timer, 5, repeats_ms[_i]);
  run_for(tick_ms_after(TICK_MS, timer.due_ms) - START_MS);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer.base), 1);
  ck_assert_uint_eq(uvwheel_count(&wheel), 1);
  run_for(1000);
  ck_assert_uint_eq(timer.fired, 2);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
}
END_TEST

static const uint64_t spans[] = {0,           ROUND_MS - TICK_MS, ROUND_MS - 1,
                                 ROUND_MS,    ROUND_MS + 1,       TICK_MS,
                                 2 * ROUND_MS};

static void
rearm_itself(test_timer_t *timer)
{
  test_timer_start(timer, *(const uint64_t *)timer->arg, 0);
}

/* akka-core#1016, nebula#802, rpc-perf#180. */
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
    uint64_t tick_ms = tick_ms_after(TICK_MS, timer.due_ms);
    ck_assert_uint_gt(tick_ms, fired_ms);
    run_for(tick_ms - uv_now(&loop));
    ck_assert_uint_eq(timer.fired, (unsigned)i + 1);
    ck_assert_uint_eq(timer.fired_ms, tick_ms);
    fired_ms = tick_ms;
  }
  test_timer_stop(&timer);
}
END_TEST

/* The rounds in which timers of one slot are due, in the order of their starts.
 */
static const struct {
  void (*open)(void);
  unsigned rounds[4];
} starts[] = {
    {open_lanes, {0, 1, 2, 3}},
    {open_lanes, {3, 2, 1, 0}},
    {open_fifo, {0, 1, 2, 3}},
    {open_fifo, {3, 2, 1, 0}},
};

/* netty#12886, #12888, #13018. */
START_TEST(timers_of_one_slot_and_different_rounds_fire_in_their_rounds)
{
  static test_timer_t timers[4];
  int i;

  starts[_i].open();
  test_timer_init_all(timers, 4);
  for (i = 0; i < 4; i++) {
    unsigned round = starts[_i].rounds[i];

    test_timer_start(&timers[round], (uint64_t)round * ROUND_MS, 0);
  }
  for (i = 0; i < 4; i++) {
    run_for(i == 0 ? TICK_MS : ROUND_MS);
    ck_assert_uint_eq(fired_in_all, (unsigned)i + 1);
    ck_assert_uint_eq(timers[i].fired, 1);
  }
}
END_TEST

/* agrona#73, camunda#767, tokio-core#2. */
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
    ck_assert_uint_eq(
        timers[i].fired,
        tick_ms_after(TICK_MS, timers[i].due_ms) <= START_MS + jump_ms ? 1 : 0);
  run_for(1000);
  for (i = 0; i < LENGTH(timers); i++) {
    uint64_t tick_ms = tick_ms_after(TICK_MS, timers[i].due_ms);
    ck_assert_uint_eq(timers[i].fired, 1);
    ck_assert_uint_eq(timers[i].fired_ms, tick_ms < START_MS + jump_ms
                                              ? START_MS + jump_ms
                                              : tick_ms);
  }
}
END_TEST

/* RussellLuo/timingwheel#45, libuv#4245, #4250. */
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
                      tick_ms_after(TICK_MS, START_MS + 10000 + short_ms));
}
END_TEST

/* P5. netty#7760, haproxy#109, uWebSockets.js#1025. */
START_TEST(huge_timeouts_do_not_fire_before_their_time)
{
  static const uint64_t huge_ms[] = {UINT32_MAX / 2,
                                     (uint64_t)UINT32_MAX / 2 + 1,
                                     (uint64_t)UINT32_MAX / 2 + 2,
                                     UINT32_MAX,
                                     (uint64_t)UINT32_MAX + 1,
                                     (uint64_t)UINT32_MAX + 2,
                                     INT64_MAX,
                                     (uint64_t)INT64_MAX + 1,
                                     UINT64_MAX - START_MS,
                                     UINT64_MAX - 1,
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

/* tokio#8334. */
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
  ck_assert_uint_eq(pending.fired_ms, tick_ms_after(TICK_MS, pending.due_ms));
  rewind_clock();
}
END_TEST

/* haproxy#2704, h2o source. */
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

/* libuv#1142, tokio#3574, XXL-JOB misfire policies. */
START_TEST(a_clock_that_jumps_ahead_fires_each_due_timer_once)
{
  static test_timer_t timers[20];
  size_t i;

  open_wheel_without_stalls(TICK_MS, SLOTS);
  test_timer_init_all(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], i * 1000, i % 2 ? 1000 : 0);
  virtual_time_advance_ms(8 * 3600 * 1000);
  run_for(0);
  for (i = 0; i < LENGTH(timers); i++) {
    ck_assert_uint_eq(timers[i].fired, 1);
    ck_assert_uint_eq(timers[i].fired_ms, START_MS + 8 * 3600 * 1000);
  }
  rewind_clock();
}
END_TEST

/* libuv#2072 is why refresh is cheap; this is when it must not be. */
START_TEST(a_refresh_to_an_earlier_due_time_pulls_the_wake_up_in)
{
  static test_timer_t timer, distant;

  open_wheel(TICK_MS, SLOTS);
  test_timer_init(&timer);
  test_timer_init(&distant);
  test_timer_start(&distant, 5000, 0);
  test_timer_start(&timer, 1000, 1000);
  uvwheel_timer_set_repeat(&timer.base, 33);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer.base), 1000);
  test_timer_refresh(&timer);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer.base), 33);
  uvwheel_timer_set_repeat(&timer.base, 0);
  run_for(tick_ms_after(TICK_MS, START_MS + 33) - START_MS);
  ck_assert_uint_eq(timer.fired, 1);
  run_for(10000);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_eq(distant.fired, 1);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("scenarios");
  TCase *life = loop_tcase(suite, "life of a handle");
  TCase *time = loop_tcase(suite, "time");

  tcase_add_loop_test(life, a_callback_may_free_its_own_timer, 0,
                      (int)LENGTH(freed));
  tcase_add_loop_test(
      life, stop_inside_callback_silences_a_peer_of_the_same_tick, 0, PEERS);
  tcase_add_loop_test(
      life, a_peer_restarted_in_a_callback_fires_at_its_new_time_alone, 0,
      (int)LENGTH(delays));
  tcase_add_loop_test(
      life, a_timer_stopped_and_started_in_its_callback_fires_once_more, 0,
      (int)LENGTH(repeats_ms));
  tcase_add_loop_test(life,
                      a_timer_rearmed_by_about_a_round_is_not_of_this_dispatch,
                      0, LENGTH(spans));
  tcase_add_loop_test(
      time, timers_of_one_slot_and_different_rounds_fire_in_their_rounds, 0,
      (int)LENGTH(starts));
  tcase_add_test(time,
                 a_jump_of_several_rounds_fires_what_is_due_once_and_no_more);
  tcase_add_loop_test(
      time,
      a_short_timer_started_while_catching_up_is_neither_early_nor_endless, 0,
      15);
  tcase_add_test(time, huge_timeouts_do_not_fire_before_their_time);
  tcase_add_test(time, years_of_uptime_make_no_timer_early_or_late);
  tcase_add_loop_test(time, a_clock_that_steps_back_fires_nothing_early, 0, 5);
  tcase_add_test(time, a_clock_that_jumps_ahead_fires_each_due_timer_once);
  tcase_add_test(time, a_refresh_to_an_earlier_due_time_pulls_the_wake_up_in);
  return run_suite(suite);
}
