/* SPDX-License-Identifier: MIT */

/* Lists: circular, with the head as one of the links. An empty one has a head
 * that points to itself or, as calloc gives it, is all zeros. */

#ifndef UVWHEEL_LIST_H
#define UVWHEEL_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "portable.h"
#include "uvwheel/wheel.h"

static inline uvwheel_link_t *
first_of(uvwheel_link_t *head)
{
  return head->next != NULL ? head->next : head;
}

static inline uvwheel_link_t *
last_of(uvwheel_link_t *head)
{
  return LIKELY(head->prev != NULL) ? head->prev : head;
}

static inline bool
list_is_empty(const uvwheel_link_t *head)
{
  return head->next == NULL || head->next == head;
}

static inline void
join(uvwheel_link_t *left, uvwheel_link_t *right)
{
  left->next = right;
  right->prev = left;
}

static inline void
list_init(uvwheel_link_t *head)
{
  join(head, head);
}

static inline void
insert_between(uvwheel_link_t *left, uvwheel_link_t *link,
               uvwheel_link_t *right)
{
  join(left, link);
  join(link, right);
}

static inline void
append(uvwheel_link_t *head, uvwheel_link_t *link)
{
  insert_between(last_of(head), link, head);
}

/* The list need not be known, nor whether it is empty afterwards. */
static inline void
unlink_one(uvwheel_link_t *link)
{
  join(link->prev, link->next);
}

/* Puts all links of one list, which has some, in front of those of another. */
static inline void
prepend_all(uvwheel_link_t *to, uvwheel_link_t *from)
{
  join(from->prev, first_of(to));
  join(to, from->next);
  list_init(from);
}

#endif /* UVWHEEL_LIST_H */
