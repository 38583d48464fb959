/* SPDX-License-Identifier: MIT */

/* Reports on a wheel, which change nothing: statistics, and the page for the
 * operator. */

#include "binding.h"

#include <inttypes.h>

void
uvwheel_get_stats(const uvwheel_t *wheel, uvwheel_stats_t *stats)
{
  const uvwheel_state_t *state;
  const core_t *core;

  if (stats == NULL)
    return;
  *stats = (uvwheel_stats_t){0};
  if (!is_wheel(wheel))
    return;
  state = wheel->state;
  core = &state->core;
  *stats = state->stats;
  stats->active = core->active;
  stats->started = core->inserted;
  stats->fired = core->expired + core->drawn_count;
  stats->fired_soonest = core->drawn_count;
  stats->stopped = stats->started - stats->active - stats->fired;
  stats->rescheduled = core->moved;
  stats->examined = core->examined;
  stats->set_back_ms = state->set_back_ms;
  stats->allowance_ms = uvwheel__get_allowance(state);
  if (!is_closing(state))
    stats->overdue_ms = excess(to_wheel_ms(state, loop_now(state)),
                               uvwheel__core_next_ms(core));
}

int
uvwheel_get_options(const uvwheel_t *wheel, uvwheel_options_t *options)
{
  if (!is_wheel(wheel) || options == NULL)
    return UV_EINVAL;
  *options = wheel->state->options;
  return 0;
}

uint64_t
uvwheel_slot_count(const uvwheel_t *wheel, uint64_t slot)
{
  uint64_t later = 0, most_rounds = 0;

  if (!is_wheel(wheel) || slot > wheel->state->core.slot_mask)
    return 0;
  return uvwheel__core_count_slot(
      &wheel->state->core, slot, wheel_now(wheel->state), &later, &most_rounds);
}

/* ---- The page for the operator ------------------------------------------ */

#define COLUMNS 64

static void
print_counts(const uvwheel_state_t *state, const uvwheel_stats_t *stats,
             FILE *stream)
{
  const core_t *core = &state->core;

  fprintf(stream,
          "uvwheel %s  %" PRIu64 " slots x %" PRIu64 " ms = %.1f s a round%s\n",
          uvwheel_version_string(), core->slot_mask + 1, core->tick_ms,
          (double)(core->slot_mask + 1) * (double)core->tick_ms / 1000,
          is_fifo(core) ? ", FIFO" : "");
  fprintf(stream, "hand      tick %" PRIu64,
          tick_after(core, wheel_now(state)) - 1);
  if (core->next_tick != NEVER)
    fprintf(stream, ", next look at tick %" PRIu64, core->next_tick);
  fprintf(stream, ", overdue by %" PRIu64 " ms\n", stats->overdue_ms);
  fprintf(stream,
          "timers    %" PRIu64 " active, %" PRIu64 " started, %" PRIu64
          " stopped, %" PRIu64 " fired\n",
          stats->active, stats->started, stats->stopped, stats->fired);
  fprintf(stream,
          "work      %" PRIu64 " examined, %" PRIu64 " rescheduled; %" PRIu64
          " turns, %" PRIu64 " cut, the longest %.1f ms\n",
          stats->examined, stats->rescheduled, stats->turns, stats->turns_cut,
          (double)stats->turn_max_us / 1000);
}

/* A character per column, from the slot of the next tick on: how full its slots
 * are, compared with the fullest column. */
static void
print_slots(const core_t *core, uint64_t now_ms, FILE *stream)
{
  static const char shades[] = " .:-=+*#%@";
  uint64_t slots = core->slot_mask + 1, counts[COLUMNS] = {0}, most = 0;
  uint64_t per_column = slots < COLUMNS ? 1 : slots / COLUMNS;
  uint64_t columns = slots / per_column, later = 0, most_rounds = 0, i;
  uint64_t next = tick_after(core, now_ms);

  for (i = 0; i < slots; i++) {
    uint64_t number = (next + i) & core->slot_mask;
    counts[i / per_column] +=
        uvwheel__core_count_slot(core, number, now_ms, &later, &most_rounds);
  }
  for (i = 0; i < columns; i++)
    most = counts[i] > most ? counts[i] : most;
  fprintf(stream,
          "rounds    %" PRIu64 " timers are due in later ones, at most %" PRIu64
          " ahead\nslots     |",
          later, most_rounds);
  for (i = 0; i < columns; i++)
    fputc(shades[counts[i] == 0 ? 0 : 1 + counts[i] * 8 / most], stream);
  fprintf(stream,
          "|\n          from the next tick on, %" PRIu64 " columns of %" PRIu64
          " slots; '@' is %" PRIu64 " timers\n",
          columns, per_column, most);
}

static void
print_lateness(const uvwheel_stats_t *stats, FILE *stream)
{
  uint64_t timers = stats->fired - stats->fired_soonest;

  fprintf(stream, "lateness  %.1f ms on average, latest %" PRIu64 " ms\n",
          (double)stats->lateness_sum_ms / (double)(timers + (timers == 0)),
          stats->lateness_max_ms);
  fprintf(stream,
          "trouble   %" PRIu64 " stalls, the longest %" PRIu64 " ms, %" PRIu64
          " not forgiven; clock set back by %" PRIu64 " ms in all, %" PRIu64
          " ms allowed now; %" PRIu64 " fired soonest\n",
          stats->stalls, stats->stall_max_ms, stats->stalls_unforgiven,
          stats->set_back_ms, stats->allowance_ms, stats->fired_soonest);
}

void
uvwheel_print(const uvwheel_t *wheel, FILE *stream)
{
  uvwheel_stats_t stats;

  if (!is_wheel(wheel) || stream == NULL)
    return;
  uvwheel_get_stats(wheel, &stats);
  print_counts(wheel->state, &stats, stream);
  print_slots(&wheel->state->core, wheel_now(wheel->state), stream);
  print_lateness(&stats, stream);
}
