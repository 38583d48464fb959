/* SPDX-License-Identifier: MIT */

/* Reports on a wheel. */

#include "binding.h"

#include <inttypes.h>

void uvwheel_get_stats(const uvwheel_t *wheel, uvwheel_stats_t *stats) {
  const uvwheel_state_t *state = get_state(wheel);
  const core_t *core;

  if (stats == NULL)
    return;
  *stats = state != NULL ? state->stats : (uvwheel_stats_t){0};
  if (state == NULL)
    return;
  core = &state->core;
  stats->started = core->stats.started;
  stats->fired = core->stats.fired;
  stats->fired_soonest = core->stats.fired_soonest;
  stats->examined = core->stats.examined;
  stats->rescheduled = core->stats.rescheduled;
  stats->active = core->active;
  stats->stopped = stats->started - stats->active - stats->fired;
  stats->overdue_ms = excess(without_lag(state, now_or_0(state)),
                             uvwheel__core_next_ms(&state->core));
}

int uvwheel_get_options(const uvwheel_t *wheel, uvwheel_options_t *options) {
  if (get_state(wheel) == NULL || options == NULL)
    return UV_EINVAL;
  *options = wheel->state->options;
  return 0;
}

uint64_t uvwheel_count_slot(const uvwheel_t *wheel, uint64_t slot) {
  if (get_state(wheel) == NULL || slot > wheel->state->core.slot_mask)
    return 0;
  return uvwheel__core_visit_slot(&wheel->state->core, slot, NULL, NULL);
}

/* ---- The page for the operator ------------------------------------------ */

#define COLUMNS 64
#define U64 "%" PRIu64

static void print_counts(const uvwheel_state_t *state,
                         const uvwheel_stats_t *stats, FILE *stream) {
  const core_t *core = &state->core;
  uint64_t slots = core->slot_mask + 1;

  fprintf(stream, "uvwheel %s  " U64 " slots x " U64 " ms = %.1f s a round%s\n",
          uvwheel_version_string(), slots, core->tick_ms,
          (double)slots * (double)core->tick_ms / 1000,
          is_fifo(core) ? ", FIFO" : "");
  fprintf(stream, "now       tick " U64, tick_after(core, now_or_0(state)) - 1);
  if (core->next_tick != NEVER)
    fprintf(stream, ", next run at tick " U64, core->next_tick);
  fprintf(stream, ", overdue by " U64 " ms\n", stats->overdue_ms);
  fprintf(stream,
          "timers    " U64 " active, " U64 " started, " U64 " stopped, " U64
          " fired\n",
          stats->active, stats->started, stats->stopped, stats->fired);
  fprintf(stream,
          "work      " U64 " examined, " U64 " rescheduled; " U64 " turns, " U64
          " cut, " U64 " overrun, the longest %.1f ms\n",
          stats->examined, stats->rescheduled, stats->turns, stats->turns_cut,
          stats->turns_overrun, (double)stats->turn_max_us / 1000);
}

typedef struct census_s {
  const core_t *core;
  uint64_t now_ms, kinds[2], later, most_rounds; /* [1]: appointments */
} census_t;

static void count_timer(const uvwheel_entry_t *entry, void *arg) {
  census_t *census = arg;
  uint64_t rounds = rounds_of(census->core, entry, census->now_ms);

  census->kinds[is_appointment(timer_of((uvwheel_entry_t *)entry))]++;
  census->later += rounds > 0;
  census->most_rounds = max_of(census->most_rounds, rounds);
}

/* Prints a character per column, from the slot after the current tick's: how
 * full it is, compared with the fullest column. */
static void print_slots(const core_t *core, uint64_t now_ms, FILE *stream) {
  static const char shades[] = " .:-=+*#%@";
  uint64_t slots = core->slot_mask + 1, counts[COLUMNS] = {0}, most = 0;
  uint64_t columns = min_of(slots, COLUMNS), per_column = slots / columns;
  uint64_t next = tick_after(core, now_ms), i;
  census_t census = {.core = core, .now_ms = now_ms};

  for (i = 0; i < slots; i++) {
    uint64_t *count = &counts[i / per_column];
    *count += uvwheel__core_visit_slot(core, (next + i) & core->slot_mask,
                                       count_timer, &census);
    most = max_of(most, *count);
  }
  fprintf(stream,
          "peers     " U64 " timers in slots expect one, " U64 " do not\n"
          "rounds    " U64 " timers are due in later ones, at most " U64
          " ahead\nslots     |",
          census.kinds[0], census.kinds[1], census.later, census.most_rounds);
  for (i = 0; i < columns; i++)
    fputc(shades[counts[i] == 0 ? 0 : 1 + counts[i] * 8 / most], stream);
  fprintf(stream,
          "|\n          from the next tick on, " U64 " columns of " U64
          " slots; '@' is " U64 " timers\n",
          columns, per_column, most);
}

static void print_lateness(const uvwheel_stats_t *stats, FILE *stream) {
  uint64_t timers = stats->fired - stats->fired_soonest;

  fprintf(stream, "lateness  %.1f ms on average, latest " U64 " ms\n",
          (double)stats->lateness_sum_ms / (double)(timers + (timers == 0)),
          stats->lateness_max_ms);
  fprintf(stream,
          "trouble   " U64 " stalls, the longest " U64 " ms; " U64
          " timers put back, " U64 " fired soonest\n",
          stats->stalls, stats->stall_max_ms, stats->put_back,
          stats->fired_soonest);
}

void uvwheel_print(const uvwheel_t *wheel, FILE *stream) {
  const uvwheel_state_t *state = get_state(wheel);
  uvwheel_stats_t stats;

  if (state == NULL || stream == NULL)
    return;
  uvwheel_get_stats(wheel, &stats);
  print_counts(state, &stats, stream);
  print_slots(&state->core, now_or_0(state), stream);
  print_lateness(&stats, stream);
}
