/* SPDX-License-Identifier: MIT */

#include "live-figures.h"

#define IN_SNAPSHOT(field) offsetof(live_snapshot_t, field)
#define IN_STATS(field) offsetof(live_snapshot_t, stats.field)

#define NEVER NULL, 0, NULL

const live_figure_t live_figures[LIVE_FIGURES] = {
    {IN_STATS(active), LIVE_TILE, LIVE_GAUGE, LIVE_ONE, "active",
     "Timers that are active now.", NEVER},
    {IN_STATS(fired), LIVE_TILE, LIVE_COUNTER, LIVE_ONE, "fired",
     "Timers that fired.", NEVER},
    {IN_SNAPSHOT(unanswered_ms), LIVE_FIRST, LIVE_GAUGE, LIVE_MS, "unanswered",
     "For how long the loop has not answered the page.",
     "Bad when it stays over a second: something blocked the loop.", 1000,
     NULL},
    {IN_STATS(overdue_ms), LIVE_FIRST, LIVE_GAUGE, LIVE_MS, "overdue",
     "For how long the oldest due timer has been waiting.",
     "Bad when it stays over a second: timers came due faster than they could "
     "fire.",
     1000, NULL},
    {IN_STATS(stalls), LIVE_FIRST, LIVE_COUNTER, LIVE_ONE, "stalls",
     "Times the loop was blocked, or frozen, for over stall_ms.",
     "Bad when it grows: the loop was blocked, or the process frozen.", 0,
     NULL},
    {IN_STATS(put_back), LIVE_HEALTH, LIVE_COUNTER, LIVE_ONE, "put_back",
     "Timers that a stall has postponed: their peers could not be heard.",
     NEVER},
    {IN_STATS(turns_cut), LIVE_HEALTH, LIVE_COUNTER, LIVE_ONE, "turns_cut",
     "Turns that left due timers to the next one, because turn_budget or "
     "turn_ms was used up.",
     "Bad when over ten a second: callbacks were slow, or very many timers "
     "expired.",
     10, NULL},
    {IN_STATS(turns_overrun), LIVE_HEALTH, LIVE_COUNTER, LIVE_ONE,
     "turns_overrun", "Turns that took more than twice turn_ms.",
     "Bad when over one a second: a callback was slow.", 1, NULL},
    {IN_STATS(fired_soonest), LIVE_HEALTH, LIVE_COUNTER, LIVE_ONE,
     "fired_soonest", "Timers that fired before their time, to make room.",
     "Bad when it grows: the server was full.", 0, NULL},
    {IN_SNAPSHOT(examined_too_early), LIVE_NOWHERE, LIVE_COUNTER, LIVE_ONE,
     "examined_too_early",
     "Timers that the wheel examined a round or more before they were due.",
     "Bad when over a million a second: the wheel needs more slots.", 1000000,
     NULL},
    {IN_STATS(stall_max_ms), LIVE_NOWHERE, LIVE_GAUGE, LIVE_MS, "stall_max",
     "The longest stall since the start.", NEVER},
    {IN_STATS(stall_sum_ms), LIVE_NOWHERE, LIVE_COUNTER, LIVE_MS, "stall_sum",
     "The total time of all stalls, in which the loop read nothing.", NEVER},
    {IN_SNAPSHOT(refreshed), LIVE_NOWHERE, LIVE_COUNTER, LIVE_ONE, "refreshed",
     "Refreshes of timers. The server counts them, because to the library "
     "a refresh is one store.",
     NEVER},
    {IN_STATS(rescheduled), LIVE_NOWHERE, LIVE_COUNTER, LIVE_ONE, "rescheduled",
     "Refreshed timers that the wheel moved to a later slot.", NEVER},
    {IN_STATS(turns), LIVE_NOWHERE, LIVE_COUNTER, LIVE_ONE, "turns",
     "Turns: times that the wheel had timers to fire.", NEVER},
    {IN_STATS(turn_max_us), LIVE_NOWHERE, LIVE_GAUGE, LIVE_US, "turn_max",
     "The longest turn, batch of posts or fire_soonest.", NEVER},
    {IN_STATS(started), LIVE_NOWHERE, LIVE_COUNTER, LIVE_ONE, "started",
     "Starts of timers, also by a repeat that fired.", NEVER},
    {IN_STATS(stopped), LIVE_NOWHERE, LIVE_COUNTER, LIVE_ONE, "stopped",
     "Timers that were stopped before they fired.", NEVER},
    {IN_STATS(examined), LIVE_NOWHERE, LIVE_COUNTER, LIVE_ONE, "examined",
     "Timers that the wheel examined, to fire, to move or in vain.", NEVER},
    {IN_STATS(lateness_max_ms), LIVE_NOWHERE, LIVE_GAUGE, LIVE_MS,
     "lateness_max",
     "The longest time from a timer's due time to its callback.", NEVER},
    /* Rules compare others with these, so they are figures and no labels. */
    {IN_SNAPSHOT(options.tick_ms), LIVE_NOWHERE, LIVE_GAUGE, LIVE_MS, "tick",
     "The resolution of the wheel.", NEVER},
    {IN_SNAPSHOT(options.max_timers), LIVE_NOWHERE, LIVE_GAUGE, LIVE_ONE,
     "max_timers", "How many timers may be active; 0: there is no limit.",
     NEVER},
};

const live_figure_t *live_figure(const live_wheel_t *wheel, size_t i) {
  if (i < LIVE_FIGURES)
    return &live_figures[i];
  i -= LIVE_FIGURES;
  return i < wheel->count_count ? &wheel->counts[i] : NULL;
}

size_t live_offset(size_t i) {
  return i < LIVE_FIGURES
             ? live_figures[i].offset
             : IN_SNAPSHOT(counts) + (i - LIVE_FIGURES) * sizeof(uint64_t);
}

static uint64_t number_of(const live_snapshot_t *snapshot, size_t i) {
  return *(const uint64_t *)((const char *)snapshot + live_offset(i));
}

void live_counts_take(live_snapshot_t *snapshot, const live_wheel_t *shown) {
  for (size_t i = 0; i < shown->count_count; i++)
    snapshot->counts[i] = *(const uint64_t *)((const char *)shown->server +
                                              shown->counts[i].offset);
}

void live_snapshot_take(live_snapshot_t *snapshot, const live_wheel_t *shown) {
  uvwheel_stats_t *stats = &snapshot->stats;
  uint64_t useful;

  uvwheel_get_stats(shown->wheel, stats);
  (void)uvwheel_get_options(shown->wheel, &snapshot->options);
  useful = stats->rescheduled + stats->fired + stats->put_back;
  snapshot->examined_too_early =
      stats->examined > useful ? stats->examined - useful : 0;
  snapshot->refreshed = *shown->refreshes;
  live_counts_take(snapshot, shown);
  snapshot->now_ms = uv_now(uvwheel_get_loop(shown->wheel));
}

/* ---- Trouble ------------------------------------------------------------ */

/* A gauge has to be so twice: after a freeze it is for a moment. */
static bool is_bad(const live_figure_t *figure, size_t i,
                   const live_snapshot_t *last, const live_snapshot_t *now) {
  uint64_t before = number_of(last, i), number = number_of(now, i);

  if (figure->worry == NULL)
    return false;
  if (figure->type == LIVE_GAUGE)
    return number > figure->limit && before > figure->limit;
  return number > before && (number - before) * 1000 >
                                figure->limit * (now->now_ms - last->now_ms);
}

/* Of the timers that have fired since, over 1 % took more than two ticks and
 * 100 ms. A bucket counts if all of it is beyond that. */
static bool is_late(const live_snapshot_t *last, const live_snapshot_t *now) {
  uint64_t most_ms = 2 * now->options.tick_ms + 100;
  uint64_t fired = 0, late = 0;

  for (unsigned b = 0; b < UVWHEEL_LATENESS_BUCKETS; b++) {
    uint64_t grown = now->stats.lateness[b] - last->stats.lateness[b];
    fired += grown;
    if (b > 0 && UINT64_C(1) << (b - 1) > most_ms)
      late += grown;
  }
  return late * 100 > fired;
}

void live_judge(live_judged_t *judged, const live_wheel_t *wheel,
                const live_snapshot_t *now, uint64_t page_ms) {
  const live_snapshot_t *last = &judged->last;
  const live_figure_t *figure;

  for (size_t i = 0; (figure = live_figure(wheel, i)) != NULL; i++) {
    uint64_t number = number_of(now, i);
    if (!is_bad(figure, i, last, now))
      continue;
    if (judged->worst[i] < number ||
        page_ms - judged->bad_ms[i] > LIVE_RECENT_MS)
      judged->worst[i] = number;
    judged->bad_ms[i] = page_ms;
  }
  if (is_late(last, now))
    judged->late_ms = page_ms;
  if (now->stats.stalls > last->stats.stalls)
    judged->stall_ms = now->stats.stall_sum_ms - last->stats.stall_sum_ms;
  judged->last = *now;
}
