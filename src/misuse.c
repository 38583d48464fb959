/* SPDX-License-Identifier: MIT */

/* The reports of a build with -Dchecks=true. */

#include "binding.h"

#ifdef UVWHEEL_CHECKS

#include <inttypes.h>
#include <stdlib.h>

THREAD_LOCAL char uvwheel__this_thread;
THREAD_LOCAL const uvwheel_timer_t *uvwheel__called_back;

void uvwheel__misuse(const char *kind, const void *object, uintptr_t callback,
                     const char *what) {
  fprintf(stderr, "uvwheel: %s %p, callback 0x%" PRIxPTR ": %s\n", kind, object,
          callback, what);
  abort();
}

/* The memory may be gone: so its place is printed first. */
void uvwheel__overwritten(const core_t *core, const uvwheel_link_t *link) {
  const uvwheel_state_t *state = CONTAINER_OF(core, uvwheel_state_t, core);
  uvwheel_timer_t *timer = timer_of(entry_of((uvwheel_link_t *)link));

  fprintf(stderr, "uvwheel: timer %p, ", (void *)timer);
  if (state_of(timer) == state)
    fprintf(stderr, "callback 0x%" PRIxPTR, (uintptr_t)timer->cb);
  else
    fprintf(stderr, "whose memory holds no timer of this wheel");
  fprintf(stderr,
          ": its links were overwritten, or it was freed while active\n");
  abort();
}

static void search(const core_t *core, const uvwheel_link_t *head,
                   size_t count) {
  for (; count > 0; count--, head++) {
    const uvwheel_link_t *link = head;
    do {
      check_next(core, link);
      link = link->next;
    } while (link != head);
  }
}

void uvwheel__search_lists(const core_t *core, const uvwheel_link_t *link) {
  slot_t *slot = core->slots;

  for (; slot <= &core->slots[core->slot_mask]; slot++)
    if (slot->next_pass != 0)
      search(core, slot->lanes,
             (size_t)(lane_at(slot, slot->lanes_used) - slot->lanes));
  search(core, core->pending, MAX_LANES);
  search(core, &core->due, 1);
  search(core, &core->kept, 1);
  search(core, &core->drawn, 1);
  search(core, core->unvisited, MAX_LANES);
  uvwheel__overwritten(core, link);
}

void uvwheel__check_thread(const uvwheel_state_t *state,
                           const uvwheel_timer_t *timer) {
  static const char what[] = "used by another thread while its loop polls";

  /* If the check is closed, nothing clears poller. */
  if (!IS_OTHER_THREAD(state) || IS_CLOSING(state->listen.check))
    return;
  MISUSE_IF(timer != NULL, "timer", timer, what);
  uvwheel__misuse("wheel", state->wheel, 0, what);
}

/* uvwheel_fire_soonest may call callbacks inside a callback. */
void uvwheel__call_back(uvwheel_timer_t *timer) {
  const uvwheel_timer_t *outer = uvwheel__called_back;

  uvwheel__called_back = timer;
  timer->cb(timer);
  uvwheel__called_back = outer;
}

#endif
