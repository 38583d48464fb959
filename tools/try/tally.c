/* SPDX-License-Identifier: MIT */

/* Counts the calls and times a sample of them: all of the first ones, so that a
 * short run has figures, then some at random, so that no rhythm of the program
 * distorts the sample. */

#include <stdlib.h>
#include <time.h>

#include "try.h"

#define ALL_UNTIL 1024
#define ONE_OF 16

/* No such call takes that long: the process was interrupted. */
#define LONGEST_CALL_NS 100000
#define LONGEST_LOOK_NS 2000

uint64_t
now_ns(void)
{
  struct timespec now;

  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The least of many is its cost when nothing interrupts it. Threads may measure
 * it side by side. */
uint64_t
clock_ns(void)
{
  static _Atomic uint64_t known;
  uint64_t least = atomic_load(&known);

  if (least != 0)
    return least;
  least = LONGEST_CALL_NS;
  for (int i = 0; i < 1000; i++) {
    uint64_t began_ns = now_ns(), took_ns = now_ns() - began_ns;

    if (took_ns < least)
      least = took_ns;
  }
  atomic_store(&known, least != 0 ? least : 1);
  return least;
}

stopwatch_t
begin_call(tally_t *tally, kind_t kind)
{
  stopwatch_t watch = {&tally->costs[kind], 0, 0};

  watch.cost->calls++;
  if (watch.cost->left != 0) {
    watch.cost->left--;
    return watch;
  }
  watch.weight = 1;
  if (watch.cost->calls > ALL_UNTIL) {
    watch.weight = ONE_OF;
    watch.cost->left = (uint64_t)nrand48(tally->random) % (2 * ONE_OF - 1);
  }
  watch.began_ns = now_ns();
  return watch;
}

static void
note(const stopwatch_t *watch, uint64_t took_ns, uint64_t beside_ns,
     uint64_t longest_ns)
{
  cost_t *cost = watch->cost;
  uint64_t ns = took_ns > beside_ns ? took_ns - beside_ns : 0;

  if (ns > longest_ns)
    return;
  cost->timed++;
  cost->weight += watch->weight;
  cost->ns += watch->weight * ns;
}

void
end_call(const stopwatch_t *watch)
{
  if (watch->weight != 0)
    note(watch, now_ns() - watch->began_ns, clock_ns(), LONGEST_CALL_NS);
}

void
end_turn(const stopwatch_t *watch, uint64_t ended_ns, uint64_t callbacks_ns,
         uint64_t looked)
{
  note(watch, ended_ns - watch->began_ns, callbacks_ns + clock_ns(),
       LONGEST_CALL_NS + looked * LONGEST_LOOK_NS);
}

double
cost_ns(const cost_t *cost)
{
  if (cost->weight == 0)
    return 0;
  return (double)cost->ns / (double)cost->weight * (double)cost->calls;
}

/* ---- Lateness ----------------------------------------------------------- */

void
note_late(tally_t *tally, uint64_t weight, uint64_t due_ns, uint64_t fired_ns)
{
  uint64_t ns = fired_ns > due_ns ? fired_ns - due_ns : 0;
  uint64_t us = ns / 1000, shift = 0;

  while (us >> shift >= 2 * LATE_STEPS)
    shift++;
  tally->late[shift * LATE_STEPS + (us >> shift)] += weight;
  tally->late_ns += weight * ns;
}

/* Where a bucket ends. */
static double
bucket_ms(uint64_t bucket)
{
  uint64_t shift = bucket < LATE_STEPS ? 0 : bucket / LATE_STEPS - 1;

  return (double)((bucket - shift * LATE_STEPS + 1) << shift) / 1000;
}

lateness_t
lateness_of(const tally_t *tally)
{
  lateness_t lateness = {0, 0, 0};
  uint64_t seen = 0, bucket = 0;

  for (uint64_t i = 0; i < LATE_BUCKETS; i++)
    lateness.timers += tally->late[i];
  if (lateness.timers == 0)
    return lateness;
  while ((seen += tally->late[bucket]) * 100 < lateness.timers * 99)
    bucket++;
  lateness.mean_ms = (double)tally->late_ns / (double)lateness.timers / 1e6;
  lateness.p99_ms = bucket_ms(bucket);
  return lateness;
}

/* ---- Many tallies ------------------------------------------------------- */

void
add_tally(tally_t *sum, const tally_t *tally)
{
  for (int kind = 0; kind < KINDS; kind++) {
    cost_t *into = &sum->costs[kind];
    const cost_t *cost = &tally->costs[kind];

    into->calls += cost->calls;
    into->timed += cost->timed;
    into->weight += cost->weight;
    into->ns += cost->ns;
  }
  for (int i = 0; i < LATE_BUCKETS; i++)
    sum->late[i] += tally->late[i];
  sum->late_ns += tally->late_ns;
  sum->loops += tally->loops;
  sum->fired += tally->fired;
  sum->restarted += tally->restarted;
  sum->active += tally->active;
  sum->active_most += tally->active_most;
  sum->open += tally->open;
  sum->open_most += tally->open_most;
}

void
restart_tally(tally_t *tally, bool has_loop)
{
  tally_t begun = {.loops = has_loop,
                   .active = tally->active,
                   .active_most = tally->active,
                   .open = tally->open,
                   .open_most = tally->open};

  *tally = begun;
}
