/* SPDX-License-Identifier: MIT */

#include "live-picture.h"

#include <inttypes.h>

#include "live-writer.h"

/* What a step may take, and what is left of earlier ones at most. */
#define STEP_NS (LIVE_INTERVAL_MS * 1000000 / LIVE_SHARE)

static uvwheel_options_t
options_of(const uvwheel_t *wheel)
{
  uvwheel_options_t options;

  (void)uvwheel_get_options(wheel, &options);
  return options;
}

void
live_picture_begin(live_picture_t *picture, uvwheel_t *wheel)
{
  uint64_t slots = options_of(wheel).slots;
  uint64_t cells = slots < LIVE_MAX_CELLS ? slots : LIVE_MAX_CELLS;

  *picture = (live_picture_t){
      .wheel = wheel,
      .cell_count = cells,
      .slots_per_cell = slots / cells,
      .counted_ns = uv_hrtime(),
      .allowance_ns = STEP_NS,
      .round_began_ns = uv_hrtime(),
  };
}

static void
count_timer(uvwheel_timer_t *timer, void *arg)
{
  uint64_t rounds = uvwheel_timer_get_rounds(timer);
  live_rounds_t *sum = arg;

  sum->walked++;
  sum->later += rounds > 0;
  if (rounds > sum->most)
    sum->most = rounds;
}

static void
count_rounds(live_picture_t *picture)
{
  picture->rounds = (live_rounds_t){0};
  if (uvwheel_count(picture->wheel) <= LIVE_MAX_WALK)
    uvwheel_walk(picture->wheel, count_timer, &picture->rounds);
}

static void
count_cell(live_picture_t *picture)
{
  if (picture->next_cell == 0)
    count_rounds(picture);
  uint64_t slot = picture->next_cell * picture->slots_per_cell;
  uint64_t count = 0;

  for (uint64_t i = 0; i < picture->slots_per_cell; i++)
    count += uvwheel_slot_count(picture->wheel, slot + i);
  picture->cells[picture->next_cell] = count;
  picture->next_cell = (picture->next_cell + 1) % picture->cell_count;
}

/* A cell that took longer than what was left is made up for: the allowance is
 * then below zero, and the next steps are left out. */
void
live_picture_count(live_picture_t *picture)
{
  uint64_t now_ns = uv_hrtime();

  picture->allowance_ns += (int64_t)(now_ns - picture->counted_ns) / LIVE_SHARE;
  if (picture->allowance_ns > STEP_NS)
    picture->allowance_ns = STEP_NS;
  picture->counted_ns = now_ns;
  for (uint64_t i = 0; i < picture->cell_count && picture->allowance_ns > 0;
       i++) {
    count_cell(picture);
    uint64_t before_ns = now_ns;
    now_ns = uv_hrtime();
    picture->allowance_ns -= (int64_t)(now_ns - before_ns);
    if (picture->next_cell == 0) {
      picture->round_ns = now_ns - picture->round_began_ns;
      picture->round_began_ns = now_ns;
    }
  }
}

/* ---- JSON --------------------------------------------------------------- */

static void
put_number(live_writer_t *writer, const char *name, uint64_t number)
{
  live_put(writer, "\"%s\":%" PRIu64 ",", name, number);
}

static void
put_numbers(live_writer_t *writer, const char *name, const uint64_t *numbers,
            size_t count)
{
  live_put(writer, "\"%s\":[", name);
  for (size_t i = 0; i < count; i++)
    live_put(writer, "%s%" PRIu64, i == 0 ? "" : ",", numbers[i]);
  live_put(writer, "]");
}

/* The age of the oldest cell, at most. */
static uint64_t
age_ms(const live_picture_t *picture)
{
  uint64_t present_ns = uv_hrtime() - picture->round_began_ns;

  return (picture->round_ns > present_ns ? picture->round_ns : present_ns) /
         1000000;
}

size_t
live_picture_write(const live_picture_t *picture, const live_facts_t *facts,
                   char *text)
{
  const uvwheel_t *wheel = picture->wheel;
  live_writer_t writer = {.text = text, .size = LIVE_MAX_TEXT};
  uvwheel_stats_t stats;

  uvwheel_get_stats(wheel, &stats);
  live_put(&writer, "{");
  put_number(&writer, "now_ms", uvwheel_now(wheel));
  put_number(&writer, "tick_ms", options_of(wheel).tick_ms);
  put_number(&writer, "slots", options_of(wheel).slots);
  put_number(&writer, "timeout_ms", facts->timeout_ms);
  put_number(&writer, "viewers", facts->viewers);
  put_number(&writer, "age_ms", age_ms(picture));
  put_number(&writer, "active", stats.active);
  put_number(&writer, "started", stats.started);
  put_number(&writer, "fired", stats.fired);
  put_number(&writer, "refreshed", facts->refreshed);
  put_number(&writer, "moved", stats.moved);
  put_number(&writer, "looked", stats.looked);
  put_number(&writer, "turns", stats.turns);
  put_number(&writer, "turns_cut", stats.turns_cut);
  put_number(&writer, "turn_max_us", stats.turn_max_us);
  put_number(&writer, "stalls", stats.stalls);
  put_number(&writer, "stall_max_ms", stats.stall_max_ms);
  put_number(&writer, "deaf_ms", stats.deaf_ms);
  put_number(&writer, "fired_early", stats.fired_early);
  put_number(&writer, "walked", picture->rounds.walked);
  put_number(&writer, "later", picture->rounds.later);
  put_number(&writer, "most_rounds", picture->rounds.most);
  put_number(&writer, "backlog_ms", stats.backlog_ms);
  put_number(&writer, "lateness_max_ms", stats.lateness_max_ms);
  put_numbers(&writer, "lateness", stats.lateness, UVWHEEL_LATENESS_BUCKETS);
  live_put(&writer, ",");
  put_numbers(&writer, "cells", picture->cells, picture->cell_count);
  live_put(&writer, "}");
  return writer.length;
}
