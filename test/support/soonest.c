/* SPDX-License-Identifier: MIT */

#include "soonest.h"

shed_t sheds[TIMERS];
unsigned order[2 * TIMERS], order_length;

unsigned
number_of(const shed_t *shed)
{
  return (unsigned)(shed - sheds);
}

void
on_shed(uvwheel_timer_t *timer)
{
  shed_t *shed = (shed_t *)timer;

  shed->fired++;
  shed->fired_ms = uvwheel_now(&wheel);
  ck_assert_uint_lt(order_length, LENGTH(order));
  order[order_length++] = number_of(shed);
  if (shed->then != NULL)
    shed->then(shed);
}

void
shed_start(unsigned i, uint64_t timeout)
{
  sheds[i].due_ms = timeout > UINT64_MAX - uvwheel_now(&wheel)
                        ? UINT64_MAX
                        : uvwheel_now(&wheel) + timeout;
  ck_assert_int_eq(uvwheel_timer_start(&sheds[i].timer, on_shed, timeout, 0),
                   0);
}

void
open_sheds(const uvwheel_options_t *options)
{
  unsigned i;

  open_wheel_with(options);
  memset(sheds, 0, sizeof sheds);
  order_length = 0;
  for (i = 0; i < TIMERS; i++)
    ck_assert_int_eq(uvwheel_timer_init(&wheel, &sheds[i].timer), 0);
}

void
open_plain_sheds(void)
{
  const uvwheel_options_t options = {.tick_ms = TICK_MS, .slots = 64};

  open_sheds(&options);
}

void
start_sheds(unsigned count, uint64_t first_ms, uint64_t step_ms)
{
  unsigned i;

  for (i = 0; i < count; i++)
    shed_start(i, first_ms + i * step_ms);
}

void
set_then(void (*then)(shed_t *))
{
  unsigned i;

  for (i = 0; i < TIMERS; i++)
    sheds[i].then = then;
}

uint64_t
tick_of(const shed_t *shed)
{
  return tick_ms_after(wheel.core.tick_ms, shed->due_ms);
}

/* The hand has not stayed ahead of the clock, nor kept anybody. */
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
  const shed_t *shed;

  ck_assert_uint_eq(order_length, count);
  for (shed = sheds; shed < sheds + TIMERS; shed++) {
    ck_assert_uint_le(shed->fired, 1);
    if (shed->fired && tick_of(shed) > latest_ms)
      latest_ms = tick_of(shed);
    if (uvwheel_timer_is_active(&shed->timer) && tick_of(shed) < earliest_ms)
      earliest_ms = tick_of(shed);
  }
  ck_assert_uint_le(latest_ms, earliest_ms);
  ck_assert_uint_eq(stats_of_wheel().fired_early, count);
  expect_the_hand_is_back();
}

void
expect_the_rest_in_time(unsigned all, uint64_t within_ms)
{
  unsigned fired = order_length, i;

  run_for(within_ms);
  ck_assert_uint_eq(order_length, all);
  for (i = fired; i < all; i++)
    ck_assert_uint_eq(sheds[order[i]].fired_ms, tick_of(&sheds[order[i]]));
  for (i = 0; i < all; i++)
    ck_assert_uint_eq(sheds[i].fired, 1);
  ck_assert_uint_eq(stats_of_wheel().lateness[0], all - fired);
  ck_assert_uint_eq(stats_of_wheel().fired, all);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
}
