/* SPDX-License-Identifier: MIT */

/* Lists: circular. A head is one of the links. */

#ifndef UVWHEEL_LIST_H
#define UVWHEEL_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "uvwheel.h"

/* In a core, a link that is not a head is the first field of an entry. */
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

static inline void unlink_one(uvwheel_link_t *link) {
  join(link->prev, link->next);
}

/* Moves what is on a list to another one, after `left`. */
static inline void splice_after(uvwheel_link_t *left, uvwheel_link_t *from) {
  if (list_is_empty(from))
    return;
  join(from->prev, left->next);
  join(left, from->next);
  list_init(from);
}

#endif /* UVWHEEL_LIST_H */
