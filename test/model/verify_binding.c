/* SPDX-License-Identifier: MIT */

/* What must hold for the wheel on its loop after each operation. */

#include "game.h"
#include "virtual_time.h"

uint64_t
clock_ms(void)
{
  return virtual_time_ns() / 1000000;
}

bool
is_rewound(void)
{
  return uv_now(&game.loop) < game.rewound_to_ms;
}

static void
verify_timer(unsigned index)
{
  const armed_t *armed = &game.timers[index];
  const model_timer_t *model = &game.model.timers[index];
  const uvwheel_timer_t *timer = &armed->holder->timer;
  uint64_t now_ms = uv_now(&game.loop);

  EXPECT(uvwheel_timer_is_active(timer) == model->active);
  EXPECT(uvwheel_timer_get_repeat(timer) == armed->repeat);
  EXPECT(uvwheel_timer_has_ref(timer) == !armed->unrefd);
  EXPECT(
      uvwheel_timer_get_due_in(timer) ==
      (model->active && model->due_ms > now_ms ? model->due_ms - now_ms : 0));
}

static void
verify_stats(void)
{
  uvwheel_stats_t stats;
  uint64_t sum = 0;
  unsigned i;

  uvwheel_get_stats(game.wheel, &stats);
  for (i = 0; i < UVWHEEL_LATENESS_BUCKETS; i++)
    sum += stats.lateness[i];
  EXPECT(stats.active == game.model.count);
  EXPECT(stats.fired == game.fired);
  EXPECT(stats.stopped == game.stopped);
  EXPECT(stats.started == stats.active + stats.stopped + stats.fired);
  EXPECT(sum == game.fired);
  EXPECT(stats.lateness_max_ms == game.lateness_max_ms);
  EXPECT(stats.turns_cut <= stats.turns);
}

static bool
keeps_loop_alive(void)
{
  unsigned i;

  if (game.unrefd)
    return false;
  for (i = 0; i < game.model.capacity; i++)
    if (game.model.timers[i].active && !game.timers[i].unrefd)
      return true;
  return is_mailbox_open();
}

static void
never_fires(uv_timer_t *timer)
{
  EXPECT(timer == NULL);
}

/* When the loop has to wake up: at the first tick at which something is due,
 * or, for what the last turn left over, a millisecond later. */
static uint64_t
latest_wake_up_ms(void)
{
  uint64_t next_ms = uv_now(&game.loop) + 1;
  uint64_t earliest_ms = model_earliest_ms(&game.model);

  if (is_rewound() && game.rewound_to_ms > next_ms)
    next_ms = game.rewound_to_ms;
  return earliest_ms > next_ms ? earliest_ms : next_ms;
}

/* The loop sleeps no longer than that, and is not woken up for nothing. */
static void
verify_sleep(void)
{
  const uint64_t long_ms = 1 << 30;
  uint64_t timeout_ms;

  EXPECT(uv_timer_start(&game.stopper, never_fires, long_ms, 0) == 0);
  timeout_ms = (uint64_t)uv_backend_timeout(&game.loop);
  EXPECT(uv_timer_stop(&game.stopper) == 0);
  if (game.model.count == 0)
    EXPECT(timeout_ms == long_ms);
  else
    EXPECT(timeout_ms <= latest_wake_up_ms() - uv_now(&game.loop));
}

/* A wheel that is closed has nothing to check, while its requests are canceled.
 */
static void
verify_wheel(void)
{
  int error = uvwheel_check(game.wheel, stderr);

  EXPECT(error == 0 || (error == UV_EINVAL && game.state == CLOSING));
  EXPECT(uvwheel_count(game.wheel) == game.model.count);
  EXPECT(uvwheel_is_closing(game.wheel) == (game.state != OPEN));
  EXPECT(uvwheel_has_ref(game.wheel) == !game.unrefd);
  EXPECT(uvwheel_get_loop(game.wheel) == &game.loop);
  verify_stats();
}

void
verify(void)
{
  unsigned i;

  for (i = 0; i < game.model.capacity; i++)
    if (game.timers[i].holder != NULL)
      verify_timer(i);
    else
      EXPECT(!game.model.timers[i].active);
  if (game.state == GONE)
    return;
  verify_wheel();
  /* While a handle is closing the loop does not sleep. */
  if (game.state == OPEN && !game.in_run && game.loop.closing_handles == NULL) {
    EXPECT((uv_loop_alive(&game.loop) != 0) == keeps_loop_alive());
    verify_sleep();
  }
}
