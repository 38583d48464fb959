/* SPDX-License-Identifier: MIT */

/* A -Dchecks=true build tells of misuse that is undefined elsewhere, with the
 * timer it concerns, and aborts. In other builds this file is empty. */

#include "checks.h"

#ifdef UVWHEEL_CHECKS

#include <inttypes.h>
#include <stdlib.h>

#include "core.h"

void
uvwheel__misuse(const uvwheel_core_t *core, const uvwheel_entry_t *entry,
                const char *what)
{
  fprintf(stderr, "uvwheel: wheel %p, hand at tick %" PRIu64,
          (const void *)core, core->hand);
  if (entry != NULL)
    fprintf(stderr, ", timer %p, due at %" PRIu64 " ms, tick %" PRIu64,
            (const void *)entry, entry->due_ms,
            tick_after(core, entry->due_ms));
  fprintf(stderr, ": %s\n", what);
  abort();
}

void
uvwheel__adopt_thread(uvwheel_t *wheel)
{
  wheel->thread = uv_thread_self();
  wheel->has_thread = 1;
}

void
uvwheel__check_thread(uvwheel_t *wheel, const uvwheel_timer_t *timer)
{
  uv_thread_t self = uv_thread_self();

  if (!wheel->has_thread)
    uvwheel__adopt_thread(wheel);
  CHECK(uv_thread_equal(&wheel->thread, &self), &wheel->core,
        timer == NULL ? NULL : &timer->entry,
        "used on another thread than the wheel's loop");
}

/* The memory may hold anything: only if it looks like an active timer of this
 * wheel is it searched for among them. */
void
uvwheel__check_idle(uvwheel_t *wheel, const uvwheel_timer_t *timer)
{
  uvwheel_cursor_t cursor;
  const uvwheel_entry_t *entry;
  bool found = false;

  if (timer->home / 4 != (uintptr_t)wheel / 4 || timer->entry.link.next == NULL)
    return;
  uvwheel_core_walk_begin(&wheel->core, &cursor);
  while ((entry = uvwheel_core_walk_next(&wheel->core, &cursor)) != NULL)
    found = found || entry == &timer->entry;
  CHECK(!found, &wheel->core, &timer->entry, "initialised while active");
}

#endif
