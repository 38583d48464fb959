/* SPDX-License-Identifier: MIT */

/* Stalls: time in which the loop was blocked does not count (P6).
 *
 * A turn never fires a timer whose peer has bytes waiting in its socket. But
 * datagrams are lost while nobody reads them; and in a poll in which one
 * callback blocks, the callbacks after it refresh their timers with a time that
 * is too old. So after a stall of S ms the wheel's clock is set back by S, and
 * by a grace of min(S, 1000) ms, in which peers may send again. Due times are
 * times of that clock: no timer is touched.
 *
 * The loop is blocked while the process is frozen and while callbacks run,
 * other than the wheel's own: otherwise a repeat whose callback is slow would
 * lose its rate. It is not blocked while a poll sleeps, at most until the
 * driver is due. This file counts for how long the loop was blocked since the
 * last poll (blocked_ms), up to the time counted_ms.
 *
 * Without a limit one client that blocks the loop again and again would keep
 * every silent peer connected. So there is an allowance, from which the time
 * that is set back is taken. A stall is forgiven only while some is left. */

#include "binding.h"

#ifdef __linux__
#include <time.h>
#endif

/* At first and at most: ten stalls of 5 s in a row. The least is as much below
 * zero: even a suspension of eight hours is forgiven completely, and 16 minutes
 * later the next one is. */
#define ALLOWANCE_MS INT64_C(60000)

/* The part of the loop's time that is added: when the allowance is used up, the
 * wheel's clock runs at 15/16 of the loop's pace at least. */
#define INFLOW 16

/* Longer than the time that most peers leave between two datagrams. */
#define MAX_GRACE_MS 1000

void
uvwheel__init_stalls(uvwheel_t *wheel)
{
  wheel->allowance_ms = ALLOWANCE_MS;
}

/* The time now, by the clock that the loop reads. (uv_now is when the last poll
 * returned.) On Linux the coarse clock is exact enough, and takes a fifth of
 * the time. */
static uint64_t
clock_ms(const uvwheel_t *wheel)
{
  uint64_t now_ms;
#ifdef __linux__
  struct timespec now;

  (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
#else
  now_ms = uv_hrtime() / 1000000;
#endif
  return now_ms > loop_now(wheel) ? now_ms : loop_now(wheel);
}

/* A poll may have slept: until it returned, or until the driver was due, if
 * that was earlier. The driver was armed by the loop's time, which may have
 * been behind the clock; then the poll slept for longer by that. */
void
uvwheel__add_blocked(uvwheel_t *wheel)
{
  uint64_t now_ms = clock_ms(wheel), slept_ms = loop_now(wheel);
  uint64_t until_ms = add_ms(wheel->armed_for_ms, wheel->behind_ms);

  if (until_ms < slept_ms)
    slept_ms = until_ms;
  if (slept_ms > wheel->counted_ms)
    wheel->counted_ms = slept_ms;
  if (now_ms >= wheel->counted_ms)
    wheel->blocked_ms += now_ms - wheel->counted_ms;
  else
    uvwheel__clock_stepped_back(wheel);
  wheel->counted_ms = now_ms;
  wheel->behind_ms = now_ms - loop_now(wheel);
}

void
uvwheel__excuse_blocked(uvwheel_t *wheel, uint64_t blocked_ms)
{
  uvwheel__add_blocked(wheel);
  wheel->blocked_ms = blocked_ms;
}

void
uvwheel__end_check(uvwheel_t *wheel)
{
  wheel->behind_ms = 0;
}

/* The remainder of the division counts the next time. */
static void
add_inflow(uvwheel_t *wheel)
{
  uint64_t now_ms = loop_now(wheel);
  uint64_t inflow_ms;

  if (now_ms < wheel->allowance_at_ms) /* the clock has stepped back */
    wheel->allowance_at_ms = now_ms;
  inflow_ms = (now_ms - wheel->allowance_at_ms) / INFLOW;
  wheel->allowance_at_ms += inflow_ms * INFLOW;
  wheel->allowance_ms += (int64_t)inflow_ms;
  if (wheel->allowance_ms > ALLOWANCE_MS)
    wheel->allowance_ms = ALLOWANCE_MS;
}

uint64_t
uvwheel__get_allowance(const uvwheel_t *wheel)
{
  uvwheel_t copy = {.loop = wheel->loop,
                    .allowance_ms = wheel->allowance_ms,
                    .allowance_at_ms = wheel->allowance_at_ms};

  if (is_closing(wheel))
    return 0;
  add_inflow(&copy);
  return copy.allowance_ms > 0 ? (uint64_t)copy.allowance_ms : 0;
}

static void
set_back(uvwheel_t *wheel, uint64_t stall_ms)
{
  uint64_t back_ms =
      add_ms(stall_ms, stall_ms < MAX_GRACE_MS ? stall_ms : MAX_GRACE_MS);

  if (back_ms > wheel_now(wheel))
    back_ms = wheel_now(wheel);
  wheel->set_back_ms += back_ms;
  if (back_ms < (uint64_t)(wheel->allowance_ms + ALLOWANCE_MS))
    wheel->allowance_ms -= (int64_t)back_ms;
  else
    wheel->allowance_ms = -ALLOWANCE_MS;
}

static NOINLINE void
forgive_stall(uvwheel_t *wheel, uint64_t stall_ms)
{
  wheel->stats.stalls++;
  wheel->stats.stall_sum_ms += stall_ms;
  if (stall_ms > wheel->stats.stall_max_ms)
    wheel->stats.stall_max_ms = stall_ms;
  add_inflow(wheel);
  if (wheel->allowance_ms > 0)
    set_back(wheel, stall_ms);
  else
    wheel->stats.stalls_unforgiven++;
}

void
uvwheel__judge_blocked(uvwheel_t *wheel)
{
  uint64_t stall_ms;

  if (uvwheel__core_count(&wheel->core) == 0) {
    wheel->blocked_ms = 0;
    return;
  }
  uvwheel__add_blocked(wheel);
  stall_ms = wheel->blocked_ms;
  wheel->blocked_ms = 0;
  if (UNLIKELY(stall_ms > wheel->options.stall_ms) &&
      wheel->options.stall_ms != UINT32_MAX)
    forgive_stall(wheel, stall_ms);
}
