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
 *   60 s   the account at first and at most: ten stalls of 5 s in a row
 *   1/16   of the loop's time flows in: with an empty account the wheel's clock
 *          runs at 15/16 of the loop's pace at least
 *   60 s   the most that the account may owe. A stall is forgiven whole, even
 *          eight hours of suspension; 16 minutes later the next one is
 *   1 s    the most that a grace may be: longer than the time that most peers
 *          leave between two datagrams
 *
 * The wheel's own callbacks are no stall: a repeat whose callback is slow would
 * lose its rate. */

#include "stall.h"

#define ACCOUNT_MS INT64_C(60000)
#define INFLOW 16
#define MOST_GRACE_MS 1000

void
uvwheel__init_stalls(uvwheel_t *wheel)
{
  wheel->account_ms = ACCOUNT_MS;
  wheel->account_at_ms = loop_now(wheel);
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
uvwheel__count_stall(uvwheel_t *wheel, uint64_t deaf_ms)
{
  wheel->stats.stalls++;
  wheel->stats.stall_sum_ms += deaf_ms;
  if (deaf_ms > wheel->stats.stall_max_ms)
    wheel->stats.stall_max_ms = deaf_ms;
  fill_account(wheel);
  if (wheel->account_ms > 0)
    set_back(wheel, deaf_ms);
}
