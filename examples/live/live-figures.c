/* SPDX-License-Identifier: MIT */

#include "live-figures.h"

#define IN_SNAPSHOT(field) offsetof(live_snapshot_t, field)
#define IN_STATS(field) offsetof(live_snapshot_t, stats.field)

#define NEVER NULL, 0

const live_figure_t live_figures[] = {
    {IN_STATS(active), LIVE_TILE, LIVE_GAUGE, LIVE_ONE, "timers",
     "Active timers", "Timers that are running.", NEVER},
    {IN_SNAPSHOT(refreshed), LIVE_TILE, LIVE_COUNTER, LIVE_ONE, "refreshed",
     "Refreshed",
     "Timers that were put off. The server counts these: to the library a "
     "refresh is one store.",
     NEVER},
    {IN_STATS(fired), LIVE_TILE, LIVE_COUNTER, LIVE_ONE, "fired", "Fired",
     "Timers that called back.", NEVER},
    {IN_STATS(rescheduled), LIVE_TILE, LIVE_COUNTER, LIVE_ONE, "moved",
     "Rescheduled",
     "Timers that the wheel found refreshed and moved to a later slot.", NEVER},
    {IN_SNAPSHOT(in_vain), LIVE_TILE, LIVE_COUNTER, LIVE_ONE, "in_vain",
     "Examined too early",
     "Timers that the wheel examined a round or more before they were due.",
     "Bad when over a million a second: the wheel needs more slots.", 60000000},
    {IN_STATS(wakeups), LIVE_TILE, LIVE_COUNTER, LIVE_ONE, "turns", "Wake-ups",
     "Times the loop ran the wheel.", NEVER},
    {IN_SNAPSHOT(unanswered_ms), LIVE_HEALTH, LIVE_GAUGE, LIVE_MS, "unanswered",
     "Loop silent", "For how long the loop has not answered the page.",
     "Bad when over a second: something blocks the loop.", 1000},
    {IN_STATS(overdue_ms), LIVE_HEALTH, LIVE_GAUGE, LIVE_MS, "backlog",
     "Overdue", "For how long the oldest due timer has been waiting.",
     "Bad when over a second: timers come due faster than they can fire.",
     1000},
    {IN_STATS(stalls), LIVE_HEALTH, LIVE_COUNTER, LIVE_ONE, "stalls", "Stalls",
     "Times the loop was blocked, or the process frozen, for over stall_ms.",
     "Bad when it grows: find what blocks the loop.", 0},
    {IN_STATS(stall_max_ms), LIVE_HEALTH, LIVE_GAUGE, LIVE_MS, "stall_max",
     "Longest stall", "The longest stall since the start.", NEVER},
    {IN_STATS(stall_sum_ms), LIVE_HEALTH, LIVE_COUNTER, LIVE_MS, "deaf", "Deaf",
     "Time of all stalls together, in which no peer was heard.", NEVER},
    {IN_STATS(set_back_ms), LIVE_HEALTH, LIVE_COUNTER, LIVE_MS, "set_back",
     "Clock set back",
     "By how much the wheel's clock was set back after stalls: timers fire "
     "later by that.",
     NEVER},
    {IN_STATS(wakeups_cut), LIVE_HEALTH, LIVE_COUNTER, LIVE_ONE, "turns_cut",
     "Unfinished wake-ups",
     "Wake-ups that left timers to the next one, so that I/O had its turn "
     "(turn_budget, turn_ms).",
     "Bad when over ten a second: callbacks are slow, or very many timers "
     "expire.",
     600},
    {IN_STATS(wakeup_max_us), LIVE_HEALTH, LIVE_GAUGE, LIVE_US, "turn_max",
     "Longest wake-up",
     "For how long the callbacks of one wake-up kept the loop from I/O, at "
     "most.",
     "Bad when over 50 ms: a callback is slow.", 50000},
    {IN_STATS(fired_soonest), LIVE_HEALTH, LIVE_COUNTER, LIVE_ONE,
     "fired_early", "Fired to make room",
     "Timers that fired before their time, to make room.",
     "Bad when it grows: the server is full.", 0},
    {IN_STATS(started), LIVE_NOWHERE, LIVE_COUNTER, LIVE_ONE, "started",
     "Started", "Timers that were started, or armed themselves again.", NEVER},
    {IN_STATS(stopped), LIVE_NOWHERE, LIVE_COUNTER, LIVE_ONE, "stopped",
     "Stopped", "Timers that were stopped before they fired.", NEVER},
    {IN_STATS(examined), LIVE_NOWHERE, LIVE_COUNTER, LIVE_ONE, "looked",
     "Examined", "Timers that the wheel examined, whatever it then did.",
     NEVER},
    {IN_STATS(lateness_max_ms), LIVE_NOWHERE, LIVE_GAUGE, LIVE_MS,
     "lateness_max", "Latest after its tick",
     "The latest that a timer fired after its tick.", NEVER},
    {IN_STATS(due_lateness_max_ms), LIVE_NOWHERE, LIVE_GAUGE, LIVE_MS,
     "due_lateness_max", "Latest after it was due",
     "The latest that a timer fired after it was due.", NEVER},
};
const size_t live_figure_count = sizeof(live_figures) / sizeof(live_figures[0]);

uint64_t
live_figure_of(const live_figure_t *figure, const live_snapshot_t *snapshot)
{
  return *(const uint64_t *)((const char *)snapshot + figure->offset);
}

void
live_snapshot_take(live_snapshot_t *snapshot, const live_wheel_t *shown)
{
  uvwheel_stats_t *stats = &snapshot->stats;
  uint64_t useful;

  uvwheel_get_stats(shown->wheel, stats);
  (void)uvwheel_get_options(shown->wheel, &snapshot->options);
  useful = stats->rescheduled + stats->fired - stats->fired_soonest;
  snapshot->in_vain = stats->examined > useful ? stats->examined - useful : 0;
  snapshot->refreshed = *shown->refreshes;
  snapshot->now_ms = uvwheel_now(shown->wheel);
  snapshot->loop_ms = uv_now(uvwheel_get_loop(shown->wheel));
}
