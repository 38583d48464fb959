/* SPDX-License-Identifier: MIT */

/* Stalls: time in which the loop was deaf does not count.
 *
 * A turn never fires a timer whose peer has bytes waiting in its socket (turn.c
 * says how). But datagrams are lost while nobody reads them; and in a poll in
 * which one callback blocks, the callbacks after it read bytes that are newer
 * than the loop's time and refresh their timers with that time. So when others
 * have held up the loop for S, more than stall_ms, the wheel's clock is set
 * back by S and by a grace of as much again, for peers whose datagrams were
 * lost to speak once more. Due times are times of that clock: no timer is
 * touched.
 *
 *   loop's time    60 ....... 70 ........... 90 ................ 110
 *                  armed      the loop       the driver          timers fire
 *                  for 70     is deaf        finds S = 20
 *
 *   wheel's clock  60 ...................... 90, back to 50 ... 70
 *
 * Without a limit one client that blocks the loop again and again would keep
 * every silent peer connected. So what is set back is taken from an account,
 * and a stall is forgiven only while that is not empty. The numbers:
 *
 *   a minute    the account at first and at most: ten stalls of 5 s in a row
 *   1/16        of the loop's time flows in: a wheel whose account is empty
 * runs at 15/16 of the loop's pace at least a minute    the most that the
 * account may owe: a stall is forgiven whole, also eight hours of suspension;
 * 16 minutes later the next one is a second    the most that a grace may be:
 * longer than most peers that send at all leave between two datagrams
 *
 * The wheel's own callbacks are no stall, or a repeat whose callback is slow
 * would lose its rate. */

#include "stall.h"

#include <time.h>

#include "probes.h"

#define ACCOUNT_MS INT64_C(60000)
#define INFLOW 16
#define MOST_GRACE_MS 1000

void
uvwheel__init_stalls(uvwheel_t *wheel)
{
  wheel->account_ms = ACCOUNT_MS;
  wheel->account_at_ms = loop_now(wheel);
}

/* The check reads it in each iteration of the loop: the coarse clock costs a
 * fifth of what the exact one does, and is off by 10 ms at most. */
uint64_t
uvwheel__read_clock(void)
{
#ifdef __linux__
  struct timespec now;

  if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) == 0)
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
#endif
  return uv_hrtime() / 1000000;
}

/* A poll may sleep until the driver is due, but not while the wheel is polling.
 * What has passed beside that are callbacks, or the process was frozen. */
uint64_t
uvwheel__heard_until(const uvwheel_t *wheel)
{
  uint64_t slept_ms = loop_now(wheel);

  if (wheel->flags & POLLING)
    return wheel->heard_ms;
  if ((wheel->flags & ARMED) && wheel->wake_ms < slept_ms)
    slept_ms = wheel->wake_ms;
  return slept_ms > wheel->heard_ms ? slept_ms : wheel->heard_ms;
}

void
uvwheel__excuse(uvwheel_t *wheel, uint64_t took_ms)
{
  wheel->heard_ms = uvwheel__heard_until(wheel) + took_ms;
}

static void
fill_account(uvwheel_t *wheel)
{
  uint64_t now_ms = loop_now(wheel), at_ms = wheel->account_at_ms;

  if (now_ms > at_ms) /* unless the clock has stepped back */
    wheel->account_ms += (int64_t)((now_ms - at_ms) / INFLOW);
  if (wheel->account_ms > ACCOUNT_MS)
    wheel->account_ms = ACCOUNT_MS;
  wheel->account_at_ms = now_ms;
}

static void
set_back(uvwheel_t *wheel, uint64_t deaf_ms)
{
  uint64_t back_ms =
      add_ms(deaf_ms, deaf_ms < MOST_GRACE_MS ? deaf_ms : MOST_GRACE_MS);

  if (back_ms > now_of(wheel))
    back_ms = now_of(wheel);
  wheel->set_back_ms += back_ms;
  if (back_ms < (uint64_t)(wheel->account_ms + ACCOUNT_MS))
    wheel->account_ms -= (int64_t)back_ms;
  else
    wheel->account_ms = -ACCOUNT_MS;
}

void
uvwheel__count_deaf(uvwheel_t *wheel, uint64_t from_ms, uint64_t to_ms)
{
  uint64_t deaf_ms = to_ms > from_ms ? to_ms - from_ms : 0;

  if (deaf_ms <= wheel->stall_ms)
    return;
  PROBE_STALL(wheel, deaf_ms);
  wheel->stats.stalls++;
  wheel->stats.deaf_ms += deaf_ms;
  if (deaf_ms > wheel->stats.stall_max_ms)
    wheel->stats.stall_max_ms = deaf_ms;
  fill_account(wheel);
  if (wheel->account_ms > 0)
    set_back(wheel, deaf_ms);
}
