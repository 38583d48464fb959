/* SPDX-License-Identifier: MIT */

/* The connections, and the orders in which they are used. */

#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Makes bench_arena: connections that have all been written to. */
void arena_make(size_t connections);

/* Says where in its connection each timer is. */
void arena_place(size_t offset);

/* The orders in which timers are used, all of them made before anything is
 * measured and read from front to back. */
struct orders {
  size_t n;
  uint32_t *ordered;     /* as they lie in memory          */
  uint32_t *shuffled[2]; /* each timer once, in two orders */
  uint32_t *random;      /* n draws of any timer           */
};

void orders_make(struct orders *orders, size_t n);
void orders_free(struct orders *orders);

/* A number less than bound; the state is the seed, not 0. */
uint32_t random_below(uint64_t *state, size_t bound);

#endif /* BENCH_MEMORY_H */
