/* SPDX-License-Identifier: MIT */

/* Watches the allocations of everything that is linked statically: the test
 * programs are linked with --wrap for the functions of allocations.c, or these
 * are the program's own where the linker has no --wrap (macOS). */

#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

/* How many blocks were asked for so far. */
uint64_t allocations(void);

/* From now on all allocations fail, or succeed again. */
void allocations_fail(bool fail);

#endif /* ALLOCATIONS_H */
