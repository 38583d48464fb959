/* SPDX-License-Identifier: MIT */

/* Timers that fire before their time. */

#include "batch.h"
#include "driver.h"
#include "misuse.h"
#include "probes.h"
#include "timer.h"

/* Calls back what was drawn. */
static uint64_t
fire_drawn(uvwheel_t *wheel)
{
  uvwheel_entry_t *entry;
  uint64_t fired = 0;

  while (!is_closing(wheel) &&
         (entry = uvwheel_core_take_drawn(&wheel->core)) != NULL) {
    fired++;
    PROBE_FIRE(entry, UINT64_C(0));
    uvwheel__fire(wheel, entry, reported_now(wheel));
  }
  return fired;
}

uint64_t
uvwheel_fire_soonest(uvwheel_t *wheel, uint64_t count)
{
  bool is_outer;
  uint64_t fired;
  batch_t batch;

  if (wheel == NULL || wheel->loop == NULL || is_closing(wheel) ||
      wheel->core.cursor != NULL || (wheel->flags & FIRES_SOONEST))
    return 0;
  uvwheel__expect_thread(wheel, NULL);
  follow_clock(wheel);
  is_outer = !(wheel->flags & IN_BATCH);
  if (is_outer)
    uvwheel__begin_batch(wheel, &batch);
  wheel->flags |= FIRES_SOONEST;
  (void)uvwheel_core_draw(&wheel->core, passed_by(wheel, loop_now(wheel)),
                          count);
  fired = fire_drawn(wheel);
  wheel->flags &= ~(uint64_t)FIRES_SOONEST;
  if (is_outer)
    uvwheel__end_batch(wheel, &batch);
  if (uvwheel_core_count(&wheel->core) != 0)
    uvwheel__arm(wheel);
  else
    uvwheel__disarm(wheel);
  return fired;
}
