/* SPDX-License-Identifier: MIT */

#include "live-picture.h"

/* The time for a step, and the most that earlier ones may leave to it. */
#define STEP_NS (LIVE_INTERVAL_MS * 1000000 / LIVE_SHARE)

void
live_picture_begin(live_picture_t *picture, uvwheel_t *wheel)
{
  uvwheel_options_t options;
  uint64_t slots, cells;

  (void)uvwheel_get_options(wheel, &options);
  slots = options.slots;
  cells = slots < LIVE_MAX_CELLS ? slots : LIVE_MAX_CELLS;
  *picture = (live_picture_t){
      .wheel = wheel,
      .cell_count = cells,
      .slots_per_cell = slots / cells,
      .counted_ns = uv_hrtime(),
      .allowance_ns = STEP_NS,
      .first_ns = uv_hrtime(),
  };
}

static void
count_cell(live_picture_t *picture)
{
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
      picture->all_ns = now_ns - picture->first_ns;
      picture->first_ns = now_ns;
    }
  }
}

uint64_t
live_picture_age_ms(const live_picture_t *picture)
{
  uint64_t present_ns = uv_hrtime() - picture->first_ns;

  return (picture->all_ns > present_ns ? picture->all_ns : present_ns) /
         1000000;
}
