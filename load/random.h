/* SPDX-License-Identifier: MIT */

/* Random numbers that are the same in each run. */

#ifndef LOAD_RANDOM_H
#define LOAD_RANDOM_H

#include <stdint.h>

/* The next one, from 0 to limit - 1. The state may begin with any number, the
 * seed. */
uint64_t random_below(uint64_t *state, uint64_t limit);

#endif /* LOAD_RANDOM_H */
