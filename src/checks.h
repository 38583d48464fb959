/* SPDX-License-Identifier: MIT */

/* A build with -Dchecks=true reports misuse that is undefined in others: one
 * line on stderr, then abort. In other builds the macros do nothing. */

#ifndef UVWHEEL_CHECKS_H
#define UVWHEEL_CHECKS_H

#include "list.h"

#ifdef UVWHEEL_CHECKS

/* Reports misuse of the timer that an entry belongs to, and aborts. */
_Noreturn void uvwheel__misuse(const uvwheel_entry_t *entry, const char *what);

#define MISUSE_IF(condition, entry, what) \
  ((condition) ? uvwheel__misuse(entry, what) : (void)0)

/* The links of an idle entry hold this, so that their use is noticed. */
#define POISON ((uvwheel_link_t *)(uintptr_t)0xdeadbeef)

static inline void
poison(uvwheel_entry_t *entry)
{
  entry->link.next = entry->link.prev = POISON;
}

static inline bool
is_linked(const uvwheel_link_t *link)
{
  return link->next->prev == link && link->prev->next == link;
}

#else

#define MISUSE_IF(condition, entry, what) ((void)0)
#define poison(entry) ((void)0)

#endif

#define OVERWRITTEN "its links were overwritten, or it was freed while active"
#define MISUSE_IF_OVERWRITTEN(entry) \
  MISUSE_IF(!is_linked(&(entry)->link), entry, OVERWRITTEN)

#endif /* UVWHEEL_CHECKS_H */
