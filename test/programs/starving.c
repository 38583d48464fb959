/* SPDX-License-Identifier: MIT */

/* Stands between a program and malloc: FAILING_CALLS of its calls, from the
 * second on, find no memory. */

#include <stdlib.h>

#define FAILING_CALLS 40

#ifdef __APPLE__ /* whose linker has no --wrap; see allocations.c */
#include <malloc/malloc.h>
#define __wrap_malloc malloc
#define __real_malloc(size) malloc_zone_malloc(malloc_default_zone(), size)
#else
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
#endif

void *__wrap_malloc(size_t size) {
  static unsigned calls;

  calls++;
  return calls >= 2 && calls < 2 + FAILING_CALLS ? NULL : __real_malloc(size);
}
