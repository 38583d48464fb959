/* SPDX-License-Identifier: MIT */

/* What the callbacks of uvwheel_fire_soonest may do, and what it leaves as it
 * was. */

#include <stdlib.h>

#include "soonest.h"

/* ---- What its callbacks do ----------------------------------------------- */

/* Ten are drawn. The first callback does something to the sixth, which is not
 * fired before its new time then; the others are. */
#define VICTIM 5

static void
stop_victim(waiter_t *waiter)
{
  (void)waiter;
  ck_assert_int_eq(uvwheel_timer_stop(&waiters[VICTIM].timer), 0);
  memset(&waiters[VICTIM].timer, 0xA5, sizeof waiters[VICTIM].timer);
}

static void
restart_victim(waiter_t *waiter)
{
  (void)waiter;
  waiter_start(VICTIM, 3000);
}

static void
stop_and_restart_victim_at_0(waiter_t *waiter)
{
  (void)waiter;
  ck_assert_int_eq(uvwheel_timer_stop(&waiters[VICTIM].timer), 0);
  waiter_start(VICTIM, 0);
}

static void
refresh_victim(waiter_t *waiter)
{
  (void)waiter;
  waiters[VICTIM].due_ms = uvwheel_now(&wheel) + 100;
  ck_assert_int_eq(uvwheel_timer_refresh(&waiters[VICTIM].timer), 0);
}

/* What is done, and how many timers are left after it. */
static const struct {
  void (*then)(waiter_t *);
  uint32_t flags;
  unsigned left;
} actions[] = {
    {stop_victim, 0, 0},
    {stop_victim, UVWHEEL_FIFO, 0},
    {restart_victim, 0, 1},
    {restart_victim, UVWHEEL_FIFO, 1},
    {stop_and_restart_victim_at_0, 0, 1},
    {stop_and_restart_victim_at_0, UVWHEEL_FIFO, 1},
    {refresh_victim, 0, 1},
    {refresh_victim, UVWHEEL_FIFO, 1},
};

START_TEST(one_that_was_drawn_and_then_changed_does_not_fire_with_the_others)
{
  const uvwheel_options_t options = {.tick_ms = TICK_MS,
                                     .flags = actions[_i].flags};
  unsigned left = actions[_i].left, i;

  open_waiters(&options);
  waiter_start(10, 100000); /* what an earlier call drew does not matter */
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 1), 1);
  start_waiters(10, 100, 0);
  run_for(50);
  waiters[0].then = actions[_i].then;
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 10), 9);
  ck_assert_uint_eq(uvwheel_count(&wheel), left);
  verify_wheel();
  for (i = 0; i < 10; i++)
    ck_assert_uint_eq(waiters[i].fired, i != VICTIM);
  run_for(5000);
  ck_assert_uint_eq(waiters[VICTIM].fired, left);
  if (left)
    ck_assert_uint_eq(waiters[VICTIM].fired_ms, tick_of(&waiters[VICTIM]));
}
END_TEST

static void
restart_at_0(waiter_t *waiter)
{
  waiter->then = NULL;
  waiter_start(number_of(waiter), 0);
}

/* However many should fire. */
START_TEST(one_that_restarts_itself_at_0_fires_at_the_next_tick)
{
  unsigned i;

  open_plain_waiters();
  start_waiters(10, 50, 30);
  set_then(restart_at_0);
  run_for(8);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 100), 10);
  expect_the_soonest_fired(10);
  run_for(TICK_MS);
  for (i = 0; i < 10; i++) {
    ck_assert_uint_eq(waiters[i].fired, 2);
    ck_assert_uint_eq(waiters[i].fired_ms, tick_of(&waiters[i]));
  }
}
END_TEST

static void
free_itself_and_a_peer(uvwheel_timer_t *timer)
{
  uvwheel_timer_t *peer = timer->data;

  order_length++;
  if (peer != NULL) {
    ck_assert_int_eq(uvwheel_timer_stop(peer), 0);
    free(peer);
  }
  free(timer);
}

START_TEST(its_callbacks_may_free_timers)
{
  static uvwheel_timer_t *timers[20];
  size_t i;

  open_wheel(TICK_MS, 64);
  order_length = 0;
  for (i = 0; i < 20; i++) {
    timers[i] = malloc(sizeof *timers[i]);
    ck_assert_ptr_nonnull(timers[i]);
    ck_assert_int_eq(uvwheel_timer_init(&wheel, timers[i]), 0);
    ck_assert_int_eq(uvwheel_timer_start(timers[i], free_itself_and_a_peer,
                                         100 + TICK_MS * i, 0),
                     0);
    timers[i]->data = NULL;
  }
  timers[0]->data = timers[1];
  timers[2]->data = timers[19];
  timers[3]->data = timers[18]; /* not drawn */
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 18), 17);
  ck_assert_uint_eq(order_length, 17);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
}
END_TEST

static void
close_the_wheel(waiter_t *waiter)
{
  if (number_of(waiter) == 7)
    uvwheel_close(&wheel, on_wheel_closed);
}

START_TEST(the_batch_stops_when_a_callback_closes_the_wheel)
{
  const uvwheel_options_t options = {.tick_ms = TICK_MS, .flags = UVWHEEL_FIFO};
  unsigned i;

  open_waiters(&options);
  start_waiters(TIMERS, 100, 7);
  set_then(close_the_wheel);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 20), 8);
  for (i = 0; i < TIMERS; i++)
    ck_assert_int_eq(uvwheel_timer_is_active(&waiters[i].timer), 0);
  run_for(100);
  ck_assert_uint_eq(order_length, 8);
  ck_assert_uint_eq(wheels_closed, 1);
  open_plain_waiters();
}
END_TEST

/* ---- What it leaves as it was -------------------------------------------- */

/* On a wheel whose order matters, with newcomers at the end of the queue. */
START_TEST(those_that_are_left_keep_their_places)
{
  const uvwheel_options_t options = {
      .tick_ms = TICK_MS, .slots = 4, .flags = UVWHEEL_FIFO};
  unsigned i;

  open_waiters(&options);
  start_waiters(300, 100, 0);
  for (i = 0; i < 200; i += 5)
    ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, (unsigned)_i), (unsigned)_i);
  for (i = 300; i < TIMERS; i++)
    waiter_start(i, 100);
  run_for(1000);
  ck_assert_uint_eq(order_length, TIMERS);
  for (i = 0; i < TIMERS; i++)
    ck_assert_uint_eq(order[i], i);
}
END_TEST

static unsigned beats;

static void
on_beat(uvwheel_timer_t *timer)
{
  beats++;
  ck_assert_int_eq(uvwheel_timer_is_active(timer), 1);
}

/* Early once, then at the times at which it would have fired anyway. */
START_TEST(a_repeating_timer_keeps_its_beat)
{
  static uvwheel_timer_t timer;

  open_wheel(TICK_MS, 64);
  beats = 0;
  ck_assert_int_eq(uvwheel_timer_init(&wheel, &timer), 0);
  ck_assert_int_eq(uvwheel_timer_start(&timer, on_beat, 100, 250), 0);
  run_for(40);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 10), 1);
  ck_assert_uint_eq(beats, 1);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer), 60 + 250);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 1), 1);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer), 60 + 500);
  run_for(60 + 500);
  ck_assert_uint_eq(beats, 2);
  run_for(TICK_MS);
  ck_assert_uint_eq(beats, 3);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer), 250 - TICK_MS);
}
END_TEST

/* Once for each tick at which something is left; and in vain for the tick that
 * it was armed for, and for that of the last timer drawn. */
START_TEST(the_loop_wakes_up_no_more_than_before)
{
  uint64_t sleeps;

  open_plain_waiters();
  start_waiters(100, 100, 30);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 90), 90);
  sleeps = virtual_time_sleeps();
  run_for(90 * 30 + 50);
  ck_assert_uint_le(virtual_time_sleeps() - sleeps, 2);
  run_for(10 * 30 + 100);
  ck_assert_uint_eq(order_length, 100);
  ck_assert_uint_le(stats_of_wheel().wakeups, 12);
  start_waiters(100, 100, 30);
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 100), 100);
  sleeps = virtual_time_sleeps();
  run_for(100000);
  ck_assert_uint_eq(virtual_time_sleeps() - sleeps, 1);
}
END_TEST

static void
on_crowd(uvwheel_timer_t *timer)
{
  ++*(unsigned *)timer->data;
}

#define CROWD 100000u

static const struct {
  const char *name;
  uint64_t step_ms;
} crowds[] = {{"due at one tick", 0}, {"due at 10,000 ticks", 1}};

/* The first thousand were refreshed, which the hand finds out once. */
START_TEST(few_are_looked_at_however_many_wait)
{
  uvwheel_timer_t *timers = calloc(CROWD, sizeof *timers);
  unsigned fired = 0, errors = 0, i;
  uint64_t looked;

  ck_assert_ptr_nonnull(timers);
  open_wheel(TICK_MS, 16384);
  for (i = 0; i < CROWD; i++) {
    errors += uvwheel_timer_init(&wheel, &timers[i]) != 0;
    timers[i].data = &fired;
    errors += uvwheel_timer_start(&timers[i], on_crowd,
                                  20000 + i * crowds[_i].step_ms, 0) != 0;
  }
  run_for(1000);
  for (i = 0; i < 1000; i++)
    errors += uvwheel_timer_refresh(&timers[i]) != 0;
  ck_assert_uint_eq(errors, 0);
  looked = stats_of_wheel().examined;
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 20), 20);
  require_in(crowds[_i].name, stats_of_wheel().examined - looked <= 2 * 1000);
  looked = stats_of_wheel().examined;
  for (i = 0; i < 100; i++)
    ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 20), 20);
  require_in(crowds[_i].name,
             stats_of_wheel().examined - looked <= 100 * 20 + 1000);
  looked = stats_of_wheel().examined;
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 5000), 5000);
  require_in(crowds[_i].name,
             stats_of_wheel().examined - looked <= 5000 + 1000);
  ck_assert_uint_eq(fired, 20 + 100 * 20 + 5000);
  uvwheel_close(&wheel, NULL);
  free(timers);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("what the soonest do");
  TCase *callbacks = loop_tcase(suite, "what its callbacks do");
  TCase *left = loop_tcase(suite, "what it leaves");

  tcase_add_loop_test(
      callbacks,
      one_that_was_drawn_and_then_changed_does_not_fire_with_the_others, 0,
      (int)LENGTH(actions));
  tcase_add_test(callbacks,
                 one_that_restarts_itself_at_0_fires_at_the_next_tick);
  tcase_add_test(callbacks, its_callbacks_may_free_timers);
  tcase_add_test(callbacks, the_batch_stops_when_a_callback_closes_the_wheel);
  tcase_add_loop_test(left, those_that_are_left_keep_their_places, 1, 6);
  tcase_add_test(left, a_repeating_timer_keeps_its_beat);
  tcase_add_test(left, the_loop_wakes_up_no_more_than_before);
  tcase_add_loop_test(left, few_are_looked_at_however_many_wait, 0,
                      (int)LENGTH(crowds));
  return run_suite(suite);
}
