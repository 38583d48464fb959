/* SPDX-License-Identifier: MIT */

#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CONNECTION_BYTES 256u

uint64_t bench_fired;
uint64_t bench_rearm_ms;
struct arena bench_arena;

static char *connections;

void bench_die(const char *format, ...) {
  va_list arguments;

  va_start(arguments, format);
  fputs("bench: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

void arena_make(size_t n) {
  size_t bytes = n * CONNECTION_BYTES;
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (memory == MAP_FAILED)
    bench_die("no memory for %zu connections of %u bytes", n, CONNECTION_BYTES);
  bench_arena.stride = CONNECTION_BYTES;
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  memset(memory, 0xa5, bytes);
  connections = memory;
}

void arena_place(size_t offset) {
  bench_arena.base = connections + offset;
}

/* xorshift64*, from a fixed seed. */
static uint64_t next_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 2685821657736338717u;
}

uint32_t random_below(uint64_t *state, size_t bound) {
  return (uint32_t)((next_random(state) >> 32) * bound >> 32);
}

static uint32_t *new_order(size_t n) {
  uint32_t *order = malloc(n * sizeof(*order));

  if (order == NULL)
    bench_die("no memory for an order of %zu timers", n);
  for (size_t i = 0; i < n; i++)
    order[i] = (uint32_t)i;
  return order;
}

static void shuffle(uint32_t *order, size_t n, uint64_t *state) {
  for (size_t i = n - 1; i > 0; i--) {
    size_t j = random_below(state, i + 1);
    uint32_t swap = order[i];

    order[i] = order[j];
    order[j] = swap;
  }
}

void orders_make(struct orders *orders, size_t n) {
  uint64_t state = 88172645463325252u;

  orders->n = n;
  orders->ordered = new_order(n);
  for (int i = 0; i < 2; i++) {
    orders->shuffled[i] = new_order(n);
    shuffle(orders->shuffled[i], n, &state);
  }
  orders->random = new_order(n);
  for (size_t i = 0; i < n; i++)
    orders->random[i] = random_below(&state, n);
}

void orders_free(struct orders *orders) {
  free(orders->ordered);
  free(orders->shuffled[0]);
  free(orders->shuffled[1]);
  free(orders->random);
}
