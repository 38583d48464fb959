/* SPDX-License-Identifier: MIT */

/* The floor as a shared library: its only function does the one thing that no
 * operation on a timer can do without. */

#include "bench.h"

void floor_touch(void *timer) {
  uint64_t *word = timer;

  ++*word;
}
