/* SPDX-License-Identifier: MIT */

/* Does a wheel age? Each workload runs for a virtual week. Then the wheel and a
 * new one take turns, an hour of each, so that the machine's other work hits
 * both alike. The program fails if the old one takes much longer for an hour,
 * or looks at more entries. A workload is 10,000 connections, larger than the
 * second cache level, each of which starts its entry anew when that expires. */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "invariants.h"
#include "wheel.h"

#define CONNECTIONS 10000u
#define SECOND_MS UINT64_C(1000)
#define HOUR_MS (3600 * SECOND_MS)
#define WEEK_HOURS 168
#define TURNS 7
#define MOST_RATIO 1.3
#define MOST_LOOKS 1.02

struct connection {
  uvwheel_entry_t entry;
  char rest[512 - sizeof(uvwheel_entry_t)];
};

struct workload {
  const char *name;
  uint64_t tick_ms;
  uint32_t slots;
  uint32_t flags;
  uint64_t timeout_ms; /* and up to half as much more */
  unsigned refreshed;  /* in each second              */
  unsigned drawn;      /* likewise, one by one        */
};

static const struct workload workloads[] = {
    {"within a round", 100, 512, 0, 30 * SECOND_MS, 0, 0},
    {"many rounds", 100, 512, 0, 120 * SECOND_MS, 0, 0},
    {"ticks of 1 ms", 1, 16384, 0, 20 * SECOND_MS, 0, 0},
    {"FIFO", 100, 512, UVWHEEL_FIFO, 120 * SECOND_MS, 0, 0},
    {"refreshed", 100, 512, 0, 60 * SECOND_MS, CONNECTIONS / 20, 0},
    {"shed", 100, 512, 0, 30 * SECOND_MS, 0, 20},
};

struct life {
  const struct workload *workload;
  uvwheel_core_t core;
  struct connection *connections;
  uint64_t now_ms;
  uint64_t seed;
};

static void
die(const char *what)
{
  fprintf(stderr, "age: %s\n", what);
  exit(1);
}

/* Below a limit, after G. Marsaglia, "Xorshift RNGs", 2003. */
static uint64_t
draw_number(struct life *life, uint64_t limit)
{
  life->seed ^= life->seed << 13;
  life->seed ^= life->seed >> 7;
  life->seed ^= life->seed << 17;
  return life->seed % limit;
}

static uint64_t
next_due_ms(struct life *life)
{
  uint64_t timeout_ms = life->workload->timeout_ms;

  return life->now_ms + timeout_ms + draw_number(life, timeout_ms / 2);
}

static void
begin(struct life *life, const struct workload *workload)
{
  unsigned i;

  life->workload = workload;
  life->now_ms = 0;
  life->seed = 88172645463325252;
  /* Aligned, so that an entry has the same cache lines in each life. */
  life->connections = aligned_alloc(sizeof *life->connections,
                                    CONNECTIONS * sizeof *life->connections);
  if (life->connections == NULL ||
      uvwheel__core_init(&life->core, workload->tick_ms, workload->slots,
                         workload->flags) != 0)
    die("no memory");
  /* In random order of addresses, as later. */
  for (i = 0; i < CONNECTIONS; i++) {
    uvwheel_entry_t *entry = &life->connections[i * 7919 % CONNECTIONS].entry;
    uvwheel__entry_init(entry);
    (void)uvwheel__core_insert(&life->core, entry,
                               draw_number(life, workload->timeout_ms));
  }
}

static void
end(struct life *life)
{
  uvwheel__core_destroy(&life->core);
  free(life->connections);
}

static void
expire_all(struct life *life)
{
  uint64_t budget = UINT64_MAX;
  uvwheel_entry_t *entry;

  while ((entry = uvwheel__core_expire(&life->core, life->now_ms, &budget)) !=
         NULL)
    (void)uvwheel__core_insert(&life->core, entry, next_due_ms(life));
}

/* What happens in each second beside the expiry. */
static void
disturb(struct life *life)
{
  uvwheel_entry_t *entry;
  unsigned i;

  for (i = 0; i < life->workload->refreshed; i++) {
    entry = &life->connections[draw_number(life, CONNECTIONS)].entry;
    (void)uvwheel__core_postpone(&life->core, entry, next_due_ms(life));
  }
  for (i = 0; i < life->workload->drawn; i++) {
    (void)uvwheel__core_draw(&life->core, life->now_ms, 1);
    while ((entry = uvwheel__core_take_drawn(&life->core)) != NULL)
      (void)uvwheel__core_insert(&life->core, entry, next_due_ms(life));
  }
}

/* Returns the CPU time that an hour takes. */
static double
live_an_hour(struct life *life)
{
  uint64_t end_ms = life->now_ms + HOUR_MS, second_ms = life->now_ms;
  clock_t begin = clock();

  while (life->now_ms < end_ms) {
    uint64_t next_ms = uvwheel__core_next_ms(&life->core);
    if (next_ms > second_ms) {
      life->now_ms = second_ms;
      disturb(life);
      second_ms += SECOND_MS;
    } else if (next_ms > life->now_ms) {
      life->now_ms = next_ms;
    }
    expire_all(life);
  }
  return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

static double
median(double *values)
{
  unsigned i, j;

  for (i = 1; i < TURNS; i++)
    for (j = i; j > 0 && values[j] < values[j - 1]; j--) {
      double value = values[j];
      values[j] = values[j - 1];
      values[j - 1] = value;
    }
  return values[TURNS / 2];
}

static double
looks_of(const struct life *life, uint64_t before)
{
  return (double)(life->core.counters.examined - before) / TURNS;
}

static bool
ages(const struct workload *workload)
{
  double old_s[TURNS], young_s[TURNS], ratio, looks;
  struct life old, young;
  uint64_t old_looked, young_looked;
  unsigned i;

  begin(&old, workload);
  for (i = 0; i < WEEK_HOURS - TURNS; i++)
    (void)live_an_hour(&old);
  begin(&young, workload);
  (void)live_an_hour(&young); /* its memory is written to */
  old_looked = old.core.counters.examined;
  young_looked = young.core.counters.examined;
  for (i = 0; i < TURNS; i++) {
    old_s[i] = live_an_hour(&old);
    young_s[i] = live_an_hour(&young);
  }
  ratio = median(old_s) / median(young_s);
  looks = looks_of(&old, old_looked) / looks_of(&young, young_looked);
  printf("%-15s %9.2f %9.2f %7.2f %12.0f %7.3f\n", workload->name,
         1000 * median(young_s), 1000 * median(old_s), ratio,
         looks_of(&old, old_looked), looks);
  if (broken_invariants(&old.core, stderr) != 0)
    die("an invariant is broken");
  end(&old);
  end(&young);
  return ratio > MOST_RATIO || looks > MOST_LOOKS;
}

int
main(void)
{
  unsigned aged = 0, i;

  printf("%-15s %9s %9s %7s %12s %7s\n", "CPU of an hour", "first, ms",
         "last, ms", "ratio", "looks", "ratio");
  for (i = 0; i < sizeof workloads / sizeof *workloads; i++) {
    aged += ages(&workloads[i]);
    fflush(stdout);
  }
  if (aged != 0)
    printf("%u of them age\n", aged);
  return aged != 0;
}
