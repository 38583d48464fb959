/* SPDX-License-Identifier: MIT */

/* Lists: circular, with the head as one of the links. */

#ifndef UVWHEEL_LIST_H
#define UVWHEEL_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "uvwheel.h"

struct core_s;

/* Every link that is not a head is the first field of an entry. */
static inline uvwheel_entry_t *entry_of(uvwheel_link_t *link) {
  return (uvwheel_entry_t *)link;
}

static inline void join(uvwheel_link_t *left, uvwheel_link_t *right) {
  left->next = right;
  right->prev = left;
}

static inline void list_init(uvwheel_link_t *head) {
  join(head, head);
}

static inline bool list_is_empty(const uvwheel_link_t *head) {
  return head->next == head;
}

static inline bool are_empty(const uvwheel_link_t *head,
                             const uvwheel_link_t *end) {
  for (; head != end; head++)
    if (!list_is_empty(head))
      return false;
  return true;
}

static inline void append(uvwheel_link_t *head, uvwheel_link_t *link) {
  join(head->prev, link);
  join(link, head);
}

static inline void prepend(uvwheel_link_t *head, uvwheel_link_t *link) {
  join(link, head->next);
  join(head, link);
}

/* Unlinks a link from whatever list it is on. */
static inline void unlink_one(uvwheel_link_t *link) {
  join(link->prev, link->next);
}

/* Moves all links of a list to another one, after `left`. */
static inline void splice_after(uvwheel_link_t *left, uvwheel_link_t *from) {
  if (list_is_empty(from))
    return;
  join(from->prev, left->next);
  join(left, from->next);
  list_init(from);
}

/* ---- Misuse ------------------------------------------------------------- */

/* A build with -Dchecks=true reports misuse that is undefined in others: one
 * line on stderr, then abort. In other builds the macros do nothing. */
#ifdef UVWHEEL_CHECKS

#include <assert.h>

/* What the library relies on. */
#define MUST_HOLD(condition) assert(condition)

/* Reports misuse of a timer or a request, and aborts. */
_Noreturn void uvwheel__misuse(const char *kind, const void *object,
                               uintptr_t callback, const char *what);
/* Reports that an entry of a core was overwritten, or freed while active. */
_Noreturn void uvwheel__overwritten(const struct core_s *core,
                                    const uvwheel_link_t *link);
/* Reports the first entry of a list that does not lead back to the one before
 * it: its links are wrong, those of its neighbours agree with the rest. If all
 * lists are right, `link` is a copy of a timer. */
_Noreturn void uvwheel__core_misuse(const struct core_s *core,
                                    const uvwheel_link_t *link);

#define MISUSE_IF(condition, kind, object, what)                              \
  ((condition) ? uvwheel__misuse(kind, object, (uintptr_t)(object)->cb, what) \
               : (void)0)

/* The links of an idle entry hold this, so that their use is noticed. */
#define POISON ((uvwheel_link_t *)(uintptr_t)0xdeadbeef)

static inline void poison(uvwheel_entry_t *entry) {
  entry->link.next = entry->link.prev = POISON;
}

static inline bool may_be_link(const uvwheel_link_t *link) {
  return link != NULL && (uintptr_t)link % sizeof(void *) == 0;
}

/* Do both neighbours lead back to the link? */
static inline bool is_linked(const uvwheel_link_t *link) {
  return may_be_link(link->prev) && may_be_link(link->next) &&
         link->next->prev == link && link->prev->next == link;
}

#define check_linked(core, link) \
  (is_linked(link) ? (void)0 : uvwheel__core_misuse(core, link))

/* Checks the link after this one. All up to this one are right. */
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
#define check_linked(core, link) ((void)0)
#define check_next(core, link) ((void)0)
#define poison(entry) ((void)0)

#endif

#endif /* UVWHEEL_LIST_H */
