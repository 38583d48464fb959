/* SPDX-License-Identifier: MIT */

/* All lists of a wheel, one after the other. */

#ifndef UVWHEEL_WALK_H
#define UVWHEEL_WALK_H

#include <stdbool.h>

#include "uvwheel/wheel.h"

/* The lists are numbered: the pending lanes, the due list, the drawn list, then
 * the lanes of each slot. */
#define DUE_LIST UVWHEEL_LANES
#define DRAWN_LIST (DUE_LIST + 1)
#define FIRST_SLOT_LIST (DRAWN_LIST + 1)

uvwheel_link_t *uvwheel__list_at(uvwheel_core_t *core, uint64_t list);

/* The list after one, passing over slots that are not occupied and lanes that
 * are not used; false if there is none. */
bool uvwheel__next_list(const uvwheel_core_t *core, uint64_t *list);

/* Lists hold the places of walks beside the entries. */
bool uvwheel__is_place_of_a_walk(const uvwheel_core_t *core,
                                 const uvwheel_link_t *link);

/* How many entries are due in later rounds than this one, and the most rounds
 * that any of them has to go. */
uint64_t uvwheel__count_rounds(const uvwheel_core_t *core, uint64_t now_ms,
                               uint64_t *most);

#endif /* UVWHEEL_WALK_H */
