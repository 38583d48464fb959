/* SPDX-License-Identifier: MIT */

/* The check of the invariants that src/wheel.c numbers. */

#ifndef INVARIANTS_H
#define INVARIANTS_H

#include <stdio.h>

#include "uvwheel/wheel.h"

/* Returns the number of broken invariants, and writes a line for each of them
 * to the stream unless that is NULL. Cost: O(entries + slots). */
int broken_invariants(const uvwheel_core_t *core, FILE *stream);

#endif /* INVARIANTS_H */
