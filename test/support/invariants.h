/* SPDX-License-Identifier: MIT */

/* The check of the invariants that src/core.c numbers. */

#ifndef INVARIANTS_H
#define INVARIANTS_H

#include <stdio.h>

#include "core.h"

/* Returns the number of broken invariants, and writes a line for each of them
 * to the stream unless that is NULL. Cost: O(entries + slots). */
int broken_invariants(const core_t *core, FILE *stream);

/* The same for a wheel on its loop; 0 once its close is finished. */
int broken_wheel_invariants(const uvwheel_t *wheel, FILE *stream);

#endif /* INVARIANTS_H */
