/* SPDX-License-Identifier: MIT */

/* A build with -Dchecks=true reports misuse and likely mistakes on stderr, and
 * aborts. */

#ifndef UVWHEEL_MISUSE_H
#define UVWHEEL_MISUSE_H

#include "list.h"
#include "portable.h"

#ifdef UVWHEEL_CHECKS

#include <assert.h>

struct core_s;
struct uvwheel_state_s;

/* What the library relies on. */
#define MUST_HOLD(condition) assert(condition)

/* Reports misuse of a timer, a request or a wheel, and aborts. */
_Noreturn void uvwheel__misuse(const char *kind, const void *object,
                               uintptr_t callback, const char *what);
#define MISUSE_IF(condition, kind, object, what)                              \
  ((condition) ? uvwheel__misuse(kind, object, (uintptr_t)(object)->cb, what) \
               : (void)0)

/* MISUSE_IF would read cb at the unaligned address. */
#define check_aligned(timer)                \
  ((uintptr_t)(timer) % sizeof(void *) == 0 \
       ? (void)0                            \
       : uvwheel__misuse("timer", timer, 0, \
                         "initialised at an unaligned address"))

/* Its address stands for the thread. */
extern THREAD_LOCAL char uvwheel__this_thread;
#define IS_OTHER_THREAD(state)       \
  ((state)->listen.poller != NULL && \
   (state)->listen.poller != &uvwheel__this_thread)
/* Looks for a call by another thread than the poller; timer may be NULL. */
void uvwheel__check_thread(const struct uvwheel_state_s *state,
                           const uvwheel_timer_t *timer);

/* The timer whose callback runs, or NULL. */
extern THREAD_LOCAL const uvwheel_timer_t *uvwheel__called_back;
void uvwheel__call_back(uvwheel_timer_t *timer);
#define CALL_BACK(timer) uvwheel__call_back(timer)

/* The links of an idle entry hold this: so their use is noticed. */
#define POISON ((uvwheel_link_t *)(uintptr_t)0xdeadbeef)

static inline void poison(uvwheel_entry_t *entry) {
  entry->link.next = entry->link.prev = POISON;
}

/* Reports that an entry of a core was overwritten, or freed while active. */
_Noreturn void uvwheel__overwritten(const struct core_s *core,
                                    const uvwheel_link_t *link);
/* Reports an entry at which a list breaks. If none does, it reports `link`,
 * which may be a copy of a timer. */
_Noreturn void uvwheel__search_lists(const struct core_s *core,
                                     const uvwheel_link_t *link);

static inline bool may_be_link(const uvwheel_link_t *link) {
  return link != NULL && (uintptr_t)link % sizeof(void *) == 0;
}

static inline bool is_linked(const uvwheel_link_t *link) {
  return may_be_link(link->prev) && may_be_link(link->next) &&
         link->next->prev == link && link->prev->next == link;
}

#define check_linked(core, link) \
  (is_linked(link) ? (void)0 : uvwheel__search_lists(core, link))

/* Checks the link after this one. Requires: this one is on a list, no copy. */
static inline void check_next(const struct core_s *core,
                              const uvwheel_link_t *link) {
  if (!may_be_link(link->next))
    uvwheel__overwritten(core, link);
  if (link->next->prev != link)
    uvwheel__overwritten(core, link->next);
}

#else

#define MUST_HOLD(condition) ((void)0)
#define MISUSE_IF(condition, kind, object, what) ((void)0)
#define check_aligned(timer) ((void)0)
#define IS_OTHER_THREAD(state) false
#define uvwheel__check_thread(state, timer) ((void)0)
#define CALL_BACK(timer) ((timer)->cb(timer))
#define poison(entry) ((void)0)
#define check_linked(core, link) ((void)0)
#define check_next(core, link) ((void)0)

#endif

#endif /* UVWHEEL_MISUSE_H */
