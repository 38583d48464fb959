/* SPDX-License-Identifier: MIT */

/* Timers that fire before their time. */

#include "core.h"
#include "driver.h"
#include "misuse.h"
#include "probes.h"
#include "timer.h"

uint64_t
uvwheel_fire_soonest(uvwheel_t *wheel, uint64_t count)
{
  uint64_t in_batch, drawn, fired = 0;
  uvwheel_entry_t *entry;

  if (wheel == NULL || wheel->loop == NULL || is_closing(wheel) ||
      wheel->core.cursor != NULL)
    return 0;
  uvwheel__expect_thread(wheel, NULL);
  in_batch = wheel->flags & IN_BATCH;
  wheel->flags |= IN_BATCH;
  drawn =
      uvwheel_core_draw(&wheel->core, passed_by(wheel, loop_now(wheel)), count);
  while (fired < drawn && !is_closing(wheel) &&
         (entry = uvwheel_core_take_drawn(&wheel->core)) != NULL) {
    fired++;
    PROBE_FIRE(entry, UINT64_C(0));
    uvwheel__fire(wheel, entry, now_of(wheel));
  }
  if (!in_batch)
    wheel->flags &= ~(uint64_t)IN_BATCH;
  if (uvwheel_core_count(&wheel->core) != 0)
    uvwheel__arm(wheel);
  else
    uvwheel__disarm(wheel);
  return fired;
}
