/* SPDX-License-Identifier: MIT */

#include "soonest.h"

waiter_t waiters[TIMERS];
unsigned order[2 * TIMERS], order_length;

unsigned
number_of(const waiter_t *waiter)
{
  return (unsigned)(waiter - waiters);
}

void
on_waiter(uvwheel_timer_t *timer)
{
  waiter_t *waiter = (waiter_t *)timer;

  waiter->fired++;
  waiter->fired_ms = uvwheel_now(&wheel);
  ck_assert_uint_lt(order_length, LENGTH(order));
  order[order_length++] = number_of(waiter);
  if (waiter->then != NULL)
    waiter->then(waiter);
}

void
waiter_start(unsigned i, uint64_t timeout)
{
  waiters[i].due_ms = timeout > UINT64_MAX - uvwheel_now(&wheel)
                          ? UINT64_MAX
                          : uvwheel_now(&wheel) + timeout;
  ck_assert_int_eq(
      uvwheel_timer_start(&waiters[i].timer, on_waiter, timeout, 0), 0);
}

void
open_waiters(const uvwheel_options_t *options)
{
  unsigned i;

  open_wheel_with(options);
  memset(waiters, 0, sizeof waiters);
  order_length = 0;
  for (i = 0; i < TIMERS; i++)
    ck_assert_int_eq(uvwheel_timer_init(&wheel, &waiters[i].timer), 0);
}

void
open_plain_waiters(void)
{
  const uvwheel_options_t options = {.tick_ms = TICK_MS, .slots = 64};

  open_waiters(&options);
}

void
start_waiters(unsigned count, uint64_t first_ms, uint64_t step_ms)
{
  unsigned i;

  for (i = 0; i < count; i++)
    waiter_start(i, first_ms + i * step_ms);
}

void
set_then(void (*then)(waiter_t *))
{
  unsigned i;

  for (i = 0; i < TIMERS; i++)
    waiters[i].then = then;
}

uint64_t
tick_of(const waiter_t *waiter)
{
  return tick_ms_after(wheel.core.tick_ms, waiter->due_ms);
}

/* The hand has not stayed ahead of the clock, nor kept any timer. */
static void
expect_the_hand_is_back(void)
{
  uint64_t waiting = 0, slot;

  for (slot = 0; slot <= wheel.core.slot_mask; slot++)
    waiting += uvwheel_slot_count(&wheel, slot);
  ck_assert_uint_eq(waiting, uvwheel_count(&wheel));
  ck_assert_uint_le(wheel.core.hand, uvwheel_now(&wheel) / wheel.core.tick_ms);
  verify_wheel();
}

void
expect_the_soonest_fired(unsigned count)
{
  uint64_t latest_ms = 0, earliest_ms = UINT64_MAX;
  const waiter_t *waiter;

  ck_assert_uint_eq(order_length, count);
  for (waiter = waiters; waiter < waiters + TIMERS; waiter++) {
    ck_assert_uint_le(waiter->fired, 1);
    if (waiter->fired && tick_of(waiter) > latest_ms)
      latest_ms = tick_of(waiter);
    if (uvwheel_timer_is_active(&waiter->timer) &&
        tick_of(waiter) < earliest_ms)
      earliest_ms = tick_of(waiter);
  }
  ck_assert_uint_le(latest_ms, earliest_ms);
  ck_assert_uint_eq(stats_of_wheel().fired_soonest, count);
  expect_the_hand_is_back();
}

void
expect_the_rest_in_time(unsigned all, uint64_t within_ms)
{
  unsigned fired = order_length, i;

  run_for(within_ms);
  ck_assert_uint_eq(order_length, all);
  for (i = fired; i < all; i++)
    ck_assert_uint_eq(waiters[order[i]].fired_ms, tick_of(&waiters[order[i]]));
  for (i = 0; i < all; i++)
    ck_assert_uint_eq(waiters[i].fired, 1);
  ck_assert_uint_eq(stats_of_wheel().lateness[0], all - fired);
  ck_assert_uint_eq(stats_of_wheel().fired, all);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
}
