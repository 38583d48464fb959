/* SPDX-License-Identifier: MIT */

/* Turns: how a loop drives a wheel.
 *
 * One uv_timer_t, the driver, is armed for the next tick at which the wheel
 * has something to look at, and not armed at all when the wheel is empty. What
 * happens inside a turn (the driver's callback) arms nothing: the turn does
 * that once, at its end.
 *
 * A turn that comes far too late has found a stall: the loop was deaf, and that
 * time does not count. Here the driver was armed for 70:
 *
 *   loop's time    60 ....... 70 ........... 90 ................ 110
 *                  armed      the loop       this turn          the next turn:
 *                  for 70     is deaf        finds S = 20       timers fire
 *
 *   wheel's clock  60 ...................... 90, back to 50 ... 70
 *
 * It is set back by S, and by as much again, because the stall began before 70
 * and what peers sent meanwhile may be lost: they get that long, a second at
 * most, to speak again. Due times are times of this clock, so that no timer has
 * to be touched for it. To wait for one poll instead is not enough: callbacks
 * of that poll refresh with the old time. */

#include "binding.h"
#include "portable.h"
#include "probes.h"

/* What is given to peers whose datagrams were lost in a stall: 1 s is longer
 * than what most of those that send at all leave between two. */
#define MOST_GRACE_MS 1000

/* So many sockets at most a poll of libuv tells of: 48 times 1024 events. */
#define HEARD_BY_A_POLL 49152

/* So many turns in a row show that a loop is not slow. */
#define ENOUGH_ON_TIME 3

/* The clock is asked after so many callbacks at most: it takes some 25 ns where
 * a callback and its expiry take as little. */
#define MOST_UNASKED 16

/* By how much turns have moved the loop's time on this thread, by callbacks
 * that call uv_update_time. */
static _Thread_local INITIAL_EXEC uint64_t moved_ms;

/* ---- How long a turn is ------------------------------------------------- */

void
uvwheel__begin_turn(uvwheel_t *wheel, turn_t *turn)
{
  wheel->flags |= IN_TURN;
  turn->begin_ns = uv_hrtime();
  turn->asked_ns = turn->begin_ns;
  turn->unasked = 0;
  turn->is_over = false;
}

/* Slow callbacks have the clock asked after each, quick ones from time to time;
 * of which kind they are is known from the last ones. */
void
uvwheel__count_callback(uvwheel_t *wheel, turn_t *turn)
{
  uint64_t now_ns;

  if (++turn->unasked < wheel->ask_every)
    return;
  now_ns = uv_hrtime();
  if (now_ns - turn->asked_ns > wheel->turn_ns / 8)
    wheel->ask_every = 1;
  else if (wheel->ask_every < MOST_UNASKED)
    wheel->ask_every *= 2;
  turn->asked_ns = now_ns;
  turn->unasked = 0;
  turn->is_over = now_ns - turn->begin_ns >= wheel->turn_ns;
}

void
uvwheel__end_turn(uvwheel_t *wheel, turn_t *turn)
{
  wheel->flags &= ~(uint64_t)IN_TURN;
  turn->took_us = (uv_hrtime() - turn->begin_ns) / 1000;
  if (turn->took_us > wheel->stats.turn_max_us)
    wheel->stats.turn_max_us = turn->took_us;
}

/* ---- The driver --------------------------------------------------------- */

static void on_turn(uv_timer_t *driver);

/* libuv before 1.48 runs a timer that is due again after its own callback, or
 * after that of another timer, in the same pass over its timers. */
static bool
runs_timers_again(void)
{
  return uv_version() < 0x013000;
}

/* Is the driver armed for at once, to see whether the loop is slow? */
static bool
is_asking(const uvwheel_t *wheel)
{
  return wheel->stalls_in_row != 0 && wheel->on_time != 0;
}

/* Arms the driver for the next tick of interest. If that is overdue already, it
 * counts as late from before the callbacks that have just moved the loop's time
 * by busy_ms: these must not hide for how long nobody was listened to. Never
 * pushes a wake-up back: one that is overdue has to tell by how much. */
static void
arm(uvwheel_t *wheel, uint64_t busy_ms)
{
  uint64_t now_ms = passed_ms(wheel), overdue_ms = 0;
  uint64_t next_ms = uvwheel_core_next_ms(&wheel->core);
  uint64_t delay_ms, wake_ms;

  if (next_ms > now_ms && !is_asking(wheel))
    delay_ms = next_ms - now_ms;
  else
    delay_ms = runs_timers_again() ? 1 : 0;
  if (next_ms < now_ms)
    overdue_ms = now_ms - next_ms;
  wake_ms = add_ms(loop_now(wheel), delay_ms);
  if ((wheel->flags & ARMED) && wake_ms >= wheel->wake_ms)
    return;
  wheel->flags |= ARMED;
  wheel->wake_ms = wake_ms - (overdue_ms < busy_ms ? overdue_ms : busy_ms);
  (void)uv_timer_start(&wheel->driver, on_turn, delay_ms, 0);
}

void
uvwheel__arm(uvwheel_t *wheel)
{
  /* If others have closed the driver the loop may be gone. */
  if ((wheel->flags & IN_TURN) || is_closing(wheel))
    return;
  /* The wheel was empty, or a walk ran the loop. What it knew is old. */
  if (!(wheel->flags & ARMED))
    wheel->stalls_in_row = 0;
  arm(wheel, 0);
}

void
uvwheel__disarm(uvwheel_t *wheel)
{
  wheel->flags &= ~(uint64_t)ARMED;
  (void)uv_timer_stop(&wheel->driver);
}

/* Sets the clock back if this turn has found a stall. After one the next counts
 * only once turns were on time, one and those armed for right after it: a loop
 * that is always late is slow, not deaf. (One alone tells nothing. The clock
 * was set back by what the loop is late each time; so it is on time once, by
 * chance, and would find a stall at every other turn. Nor do two: with libuv
 * before 1.48 the second may come without a poll between, when another timer's
 * callback has moved the loop's time.) */
static bool
is_stall(uvwheel_t *wheel)
{
  uint64_t now_ms = loop_now(wheel), now = now_of(wheel), set_back_ms;
  uint64_t late_ms = now_ms > wheel->wake_ms ? now_ms - wheel->wake_ms : 0;
  uint64_t most_in_row = 1 + uvwheel_core_count(&wheel->core) / HEARD_BY_A_POLL;

  if (late_ms <= wheel->stall_ms) {
    if (++wheel->on_time == ENOUGH_ON_TIME)
      wheel->stalls_in_row = 0;
    return false;
  }
  wheel->on_time = 0;
  if (wheel->stalls_in_row >= most_in_row)
    return false;
  wheel->stalls_in_row++;
  set_back_ms = late_ms + (late_ms < MOST_GRACE_MS ? late_ms : MOST_GRACE_MS);
  wheel->set_back_ms += set_back_ms < now ? set_back_ms : now;
  PROBE_STALL(wheel, late_ms);
  wheel->stats.stalls++;
  if (late_ms > wheel->stats.stall_max_ms)
    wheel->stats.stall_max_ms = late_ms;
  return true;
}

/* Has there been no poll since the wheel's last turn? Then turns, of this wheel
 * or others, have moved the loop's time to where this one is due, and nothing
 * else has. Whether that turn left something over does not matter: wheels whose
 * callbacks take longer than their ticks would go on among themselves. */
static bool
is_in_same_pass(const uvwheel_t *wheel)
{
  return runs_timers_again() &&
         loop_now(wheel) - wheel->turned_ms == moved_ms - wheel->moved_ms;
}

static void
count_lateness(uvwheel_t *wheel, uint64_t late_ms)
{
  unsigned bucket = bit_width(late_ms);

  if (bucket >= UVWHEEL_LATENESS_BUCKETS)
    bucket = UVWHEEL_LATENESS_BUCKETS - 1;
  wheel->stats.lateness[bucket]++;
  if (late_ms > wheel->stats.lateness_max_ms)
    wheel->stats.lateness_max_ms = late_ms;
}

static void
run_turn(uvwheel_t *wheel)
{
  uint64_t began_ms = loop_now(wheel), now_ms = passed_ms(wheel);
  uint64_t budget = wheel->turn_budget;
  uint64_t expired = wheel->core.counters.expired;
  uvwheel_entry_t *entry;
  turn_t turn;

  uvwheel__begin_turn(wheel, &turn);
  /* A callback may find that the clock stepped back. */
  while (!turn.is_over && !is_closing(wheel) && loop_now(wheel) >= began_ms &&
         (entry = uvwheel_core_expire(&wheel->core, now_ms, &budget)) != NULL) {
    /* All entries of a pass are due at its tick. */
    uint64_t late_ms = passed_ms(wheel) - wheel->core.pass_ms;
    PROBE_FIRE(entry, late_ms);
    count_lateness(wheel, late_ms);
    uvwheel__fire(wheel, entry);
    uvwheel__count_callback(wheel, &turn);
  }
  uvwheel__end_turn(wheel, &turn);
  PROBE_TURN(wheel, wheel->core.counters.expired - expired, turn.took_us);
  moved_ms += loop_now(wheel) - began_ms;
  if ((budget == 0 || turn.is_over) &&
      uvwheel_core_next_ms(&wheel->core) <= now_ms)
    wheel->stats.turns_cut++;
}

static void
on_turn(uv_timer_t *driver)
{
  uvwheel_t *wheel = CONTAINER_OF(driver, uvwheel_t, driver);
  uint64_t began_ms = loop_now(wheel);

  uvwheel__adopt_thread(wheel);
  wheel->flags &= ~(uint64_t)ARMED;
  /* A walk whose callback runs the loop has its places in the lists. At its end
   * it arms the driver. */
  if (wheel->core.cursor != NULL)
    return;
  wheel->stats.turns++;
  if (!is_stall(wheel) && !is_in_same_pass(wheel))
    run_turn(wheel);
  wheel->turned_ms = loop_now(wheel);
  wheel->moved_ms = moved_ms;
  if (uvwheel_core_count(&wheel->core) != 0)
    arm(wheel, loop_now(wheel) > began_ms ? loop_now(wheel) - began_ms : 0);
}
