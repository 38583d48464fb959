/* SPDX-License-Identifier: MIT */

/* Misuse that is undefined elsewhere, and that a -Dchecks=true build tells of.
 * In other builds the macros do nothing. binding.h has what concerns loops and
 * threads. */

#ifndef UVWHEEL_MISUSE_H
#define UVWHEEL_MISUSE_H

#include "list.h"

#ifdef UVWHEEL_CHECKS

/* Tells what is wrong with which wheel and which entry, if any, and aborts. */
_Noreturn void uvwheel__misuse(const uvwheel_core_t *core,
                               const uvwheel_entry_t *entry, const char *what);

#define MISUSE_IF(condition, core, entry, what) \
  ((condition) ? uvwheel__misuse(core, entry, what) : (void)0)

#define OVERWRITTEN "its links were overwritten, or it was freed while active"
#define MISUSE_IF_OVERWRITTEN(core, link)                                 \
  MISUSE_IF((link)->prev->next != (link) || (link)->next->prev != (link), \
            core, entry_of(link), OVERWRITTEN)

/* What the link of an idle entry holds, so that its use shows. */
#define POISON ((uvwheel_link_t *)(uintptr_t)0xdeadbeef)

#else

#define MISUSE_IF(condition, core, entry, what) \
  ((void)sizeof(condition), (void)(core))
#define MISUSE_IF_OVERWRITTEN(core, link) ((void)(core))

#endif

#endif /* UVWHEEL_MISUSE_H */
