/* SPDX-License-Identifier: MIT */

/* uvwheel_fire_soonest: the peers that have been silent longest make room.
 * The comments name the issues of other projects; see docs/promises.md. */

#include "soonest.h"

/* ---- The soonest --------------------------------------------------------- */

static const uvwheel_options_t wheels[] = {
    {.tick_ms = 10, .slots = 64},
    {.tick_ms = 10, .slots = 64, .flags = UVWHEEL_FIFO},
    {.tick_ms = 100, .slots = 512},
    {.tick_ms = 1, .slots = 8},
    {.tick_ms = 1, .slots = 16384},
    {.tick_ms = 1000, .slots = 1, .flags = UVWHEEL_FIFO},
};

static void
fire_some(const uvwheel_options_t *options, unsigned count)
{
  unsigned i;

  open_waiters(options);
  for (i = 0; i < TIMERS; i++) {
    waiter_start(i, 6000);
    run_for(1 + i % 20);
  }
  for (i = 0; i < 50; i++) {
    waiters[i].due_ms = uvwheel_now(&wheel) + 6000;
    ck_assert_int_eq(uvwheel_timer_refresh(&waiters[i].timer), 0);
  }
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, count), count);
  expect_the_soonest_fired(count);
  expect_the_rest_in_time(TIMERS, 8000);
  close_and_forget_wheel();
}

/* nginx#437, nginx#456: the peer heard last is closed last. */
START_TEST(the_soonest_fire_now_and_the_rest_in_time)
{
  static const unsigned counts[] = {1, 20, 49, 50, 351, 399, 400};
  size_t i;

  for (i = 0; i < LENGTH(counts); i++)
    fire_some(&wheels[_i], counts[i]);
}
END_TEST

/* A few at a time, as a server does it. */
START_TEST(each_call_takes_the_soonest_of_those_that_are_left)
{
  unsigned count = 0, i;

  open_plain_waiters();
  for (i = 0; i < TIMERS; i++)
    waiter_start(i, i * 7919 % 5000);
  while (count < 300) {
    ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 5), 5);
    count += 5;
    expect_the_soonest_fired(count);
  }
  expect_the_rest_in_time(TIMERS, 6000);
}
END_TEST

#define HOUR_MS (3600 * UINT64_C(1000))

/* However many rounds away, except those that are never due. */
START_TEST(timers_far_away_are_reached_and_the_last_due_times_are_not)
{
  open_plain_waiters();
  waiter_start(0, UINT64_MAX);
  waiter_start(1, 100 * HOUR_MS);
  waiter_start(2, UINT64_MAX - 1);
  waiter_start(3, HOUR_MS);
  waiter_start(4, 1000000 * HOUR_MS);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 1), 1);
  ck_assert_uint_eq(waiters[3].fired, 1);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 1), 1);
  ck_assert_uint_eq(waiters[1].fired, 1);
  verify_wheel();
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 10), 1);
  ck_assert_uint_eq(waiters[4].fired, 1);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 10), 0);
  ck_assert_uint_eq(uvwheel_count(&wheel), 2);
  verify_wheel();
  waiter_start(5, 20);
  run_for(1000);
  ck_assert_uint_eq(waiters[5].fired_ms, tick_of(&waiters[5]));
}
END_TEST

START_TEST(count_may_be_anything)
{
  static uvwheel_t closed;

  ck_assert_uint_eq(uvwheel_fire_soonest(NULL, 1), 0);
  memset(&closed, 0, sizeof closed);
  ck_assert_uint_eq(uvwheel_fire_soonest(&closed, 1), 0);
  open_plain_waiters();
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 0), 0);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 20), 0);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, UINT64_MAX), 0);
  verify_wheel();
  start_waiters(10, 50, 100);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 0), 0);
  expect_the_soonest_fired(0);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, UINT64_MAX), 10);
  expect_the_soonest_fired(10);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
  start_waiters(10, 50, 100);
  uvwheel_close(&wheel, on_wheel_closed);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 10), 0);
}
END_TEST

static void
restart_in_a_second(waiter_t *waiter)
{
  waiter_start(number_of(waiter), 1000);
}

/* What a server does when it has no place left: h2o#2932, TANK#62, envoy#43612.
 */
START_TEST(a_full_wheel_has_room_again)
{
  const uvwheel_options_t options = {.tick_ms = TICK_MS, .max_timers = 100};
  unsigned i;

  open_waiters(&options);
  start_waiters(100, 5000, 3);
  for (i = 100; i < TIMERS; i++) {
    ck_assert_int_eq(
        uvwheel_timer_start(&waiters[i].timer, on_waiter, 5000 + 3 * i, 0),
        UV_ENOBUFS);
    ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 1), 1);
    waiter_start(i, 5000 + 3 * i);
    ck_assert_uint_eq(uvwheel_count(&wheel), 100);
    ck_assert_uint_le(order[i - 100], i - 100 + 3); /* of that tick */
  }
  expect_the_soonest_fired(TIMERS - 100);
  waiters[TIMERS - 1].then = restart_in_a_second;
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 100), 100);
  ck_assert_uint_eq(uvwheel_count(&wheel), 1);
}
END_TEST

/* ---- Where it is called -------------------------------------------------- */

static uint64_t returned;

static void
fire_20(void)
{
  returned = uvwheel_fire_soonest(&wheel, 20);
}

static void
fire_20_in_timer(uv_timer_t *timer)
{
  uv_close((uv_handle_t *)timer, NULL);
  fire_20();
}

static void
fire_20_in_callback(waiter_t *waiter)
{
  waiter->then = NULL;
  fire_20();
}

static void
fire_20_in_post(uvwheel_post_t *post, int status)
{
  (void)post;
  ck_assert_int_eq(status, 0);
  fire_20();
}

static void
start_a_timer_of_the_wheel(void)
{
  waiter_start(0, 30);
  waiters[0].then = fire_20_in_callback;
}

static void
start_another_timer(void)
{
  static uv_timer_t timer;

  ck_assert_int_eq(uv_timer_init(&loop, &timer), 0);
  ck_assert_int_eq(uv_timer_start(&timer, fire_20_in_timer, 30, 0), 0);
}

static void
post_a_request(void)
{
  static uvwheel_post_t post;

  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  ck_assert_int_eq(uvwheel_post(&wheel, &post, fire_20_in_post), 0);
}

/* Whose callback it is, and how many timers have fired when it has returned. */
static const struct {
  void (*cause)(void);
  unsigned fired;
} callers[] = {
    {start_a_timer_of_the_wheel, 21},
    {start_another_timer, 20},
    {post_a_request, 20},
};

START_TEST(any_callback_may_call_it)
{
  open_plain_waiters();
  start_waiters(TIMERS, 1000, 7);
  callers[_i].cause();
  run_for(50);
  ck_assert_uint_eq(returned, 20);
  ck_assert_uint_eq(stats_of_wheel().fired_soonest, 20);
  ck_assert_uint_eq(order_length, callers[_i].fired);
  run_for(5000);
  ck_assert_uint_eq(order_length, TIMERS);
  ck_assert_uint_eq(stats_of_wheel().lateness[0], TIMERS - 20);
}
END_TEST

static unsigned inner_calls;

static void
fire_inside(waiter_t *waiter)
{
  (void)waiter;
  inner_calls++;
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 1), 0);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, UINT64_MAX), 0);
}

static void
restart_and_fire_inside(waiter_t *waiter)
{
  waiter_start(number_of(waiter), 0);
  fire_inside(waiter);
}

static const struct {
  const char *name;
  unsigned count;
  void (*then)(waiter_t *);
} inner[] = {
    {"some", 10, fire_inside},
    {"some, which restart themselves", 10, restart_and_fire_inside},
    {"all", TIMERS, fire_inside},
    {"all, which restart themselves", TIMERS, restart_and_fire_inside},
};

/* However many are active, those included that it would call next or that were
 * started since: no timer fires twice, and callbacks do not pile up. */
START_TEST(in_a_callback_that_it_calls_it_fires_nothing)
{
  const char *name = inner[_i].name;
  unsigned count = inner[_i].count;

  open_plain_waiters();
  start_waiters(TIMERS, 100, 11);
  inner_calls = 0;
  set_then(inner[_i].then);
  require_in(name, uvwheel_fire_soonest(&wheel, count) == count);
  require_in(name, inner_calls == count);
  require_in(name, order_length == count);
  verify_wheel();
  set_then(NULL);
  if (inner[_i].then == fire_inside)
    expect_the_rest_in_time(TIMERS, 6000);
}
END_TEST

static uvwheel_timer_t repeating[10];
static unsigned beats[10];

static void
beat_and_fire_inside(uvwheel_timer_t *timer)
{
  beats[timer - repeating]++;
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 5), 0);
}

START_TEST(a_repeating_timer_fires_once_though_it_is_active_again)
{
  unsigned i;

  open_wheel(TICK_MS, 64);
  memset(beats, 0, sizeof beats);
  for (i = 0; i < 10; i++) {
    ck_assert_int_eq(uvwheel_timer_init(&wheel, &repeating[i]), 0);
    ck_assert_int_eq(
        uvwheel_timer_start(&repeating[i], beat_and_fire_inside, 100, 100), 0);
  }
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 100), 10);
  for (i = 0; i < 10; i++)
    ck_assert_uint_eq(beats[i], 1);
}
END_TEST

static void
fire_inside_of_three(waiter_t *waiter)
{
  set_then(fire_inside);
  (void)waiter;
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 3), 3);
  set_then(NULL);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 2), 2);
}

/* It fires in a callback of a turn, not in one that it calls itself, and again
 * once it has returned. */
START_TEST(a_callback_of_a_turn_may_call_it_again)
{
  open_plain_waiters();
  start_waiters(TIMERS, 1000, 7);
  inner_calls = 0;
  waiter_start(0, 30);
  waiters[0].then = fire_inside_of_three;
  run_for(50);
  ck_assert_uint_eq(inner_calls, 3);
  ck_assert_uint_eq(order_length, 6);
  ck_assert_uint_eq(stats_of_wheel().fired_soonest, 5);
}
END_TEST

static void
fire_in_walk(uvwheel_timer_t *timer, void *arg)
{
  (void)timer;
  ++*(unsigned *)arg;
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 20), 0);
}

START_TEST(in_a_walk_it_fires_nothing)
{
  unsigned walked = 0;

  open_plain_waiters();
  start_waiters(TIMERS, 100, 11);
  uvwheel_walk(&wheel, fire_in_walk, &walked);
  ck_assert_uint_eq(walked, TIMERS);
  expect_the_soonest_fired(0);
  expect_the_rest_in_time(TIMERS, 6000);
}
END_TEST

/* A hundred timers are due at once. How many it fires after the turn was cut,
 * and how many have fired soon after. */
static const struct {
  uint32_t flags;
  unsigned count;
  unsigned fired;
} cuts[] = {
    {0, 20, 100}, /* fewer than are due */
    {UVWHEEL_FIFO, 20, 100},
    {0, 300, 330}, /* more than are due */
    {UVWHEEL_FIFO, 300, 330},
};

START_TEST(it_goes_on_where_a_cut_turn_has_stopped)
{
  const uvwheel_options_t options = {.tick_ms = TICK_MS,
                                     .slots = 64,
                                     .turn_budget = 30,
                                     .flags = cuts[_i].flags};
  unsigned count = cuts[_i].count, i;

  open_waiters(&options);
  start_waiters(100, 5, 0);
  for (i = 100; i < TIMERS; i++)
    waiter_start(i, 2000 + 5 * i);
  virtual_time_advance_ms(20);
  run_turn();
  ck_assert_uint_eq(order_length, 30);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, count), count);
  verify_wheel();
  for (i = 0; i < 30 + count && i < 100; i++)
    ck_assert_uint_lt(order[i], 100);
  ck_assert_uint_eq(order_length, 30 + count);
  run_for(100);
  ck_assert_uint_eq(order_length, cuts[_i].fired);
  run_for(5000);
  ck_assert_uint_eq(order_length, TIMERS);
  for (i = 0; i < TIMERS; i++)
    ck_assert_uint_eq(waiters[i].fired, 1);
  for (i = 1; i < TIMERS && cuts[_i].flags == UVWHEEL_FIFO; i++)
    ck_assert_uint_eq(order[i], i);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("soonest");
  TCase *soonest = loop_tcase(suite, "the soonest");
  TCase *where = loop_tcase(suite, "where it is called");

  tcase_add_loop_test(soonest, the_soonest_fire_now_and_the_rest_in_time, 0,
                      (int)LENGTH(wheels));
  tcase_add_test(soonest, each_call_takes_the_soonest_of_those_that_are_left);
  tcase_add_test(soonest,
                 timers_far_away_are_reached_and_the_last_due_times_are_not);
  tcase_add_test(soonest, count_may_be_anything);
  tcase_add_test(soonest, a_full_wheel_has_room_again);
  tcase_add_loop_test(where, any_callback_may_call_it, 0, (int)LENGTH(callers));
  tcase_add_loop_test(where, in_a_callback_that_it_calls_it_fires_nothing, 0,
                      (int)LENGTH(inner));
  tcase_add_test(where, a_repeating_timer_fires_once_though_it_is_active_again);
  tcase_add_test(where, a_callback_of_a_turn_may_call_it_again);
  tcase_add_test(where, in_a_walk_it_fires_nothing);
  tcase_add_loop_test(where, it_goes_on_where_a_cut_turn_has_stopped, 0,
                      (int)LENGTH(cuts));
  return run_suite(suite);
}
