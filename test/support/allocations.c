/* SPDX-License-Identifier: MIT */

#include "allocations.h"

#include <errno.h>
#include <stddef.h>

static uint64_t count;
static bool failing;

/* In a static program the C library's own calls come here as well, from calloc
 * to malloc for instance. Those do not count. */
#ifdef _WIN32
static unsigned depth; /* thread-local ones call malloc themselves there */
#else
static _Thread_local unsigned depth;
#endif

uint64_t allocations(void) {
  return count;
}

void allocations_fail(bool fail) {
  failing = fail;
}

static bool refuse(void) {
  if (depth == 0) {
    count++;
    if (failing) {
      errno = ENOMEM;
      return true;
    }
  }
  depth++;
  return false;
}

static void *leave(void *block) {
  depth--;
  return block;
}

#ifdef __APPLE__

/* The linker has no --wrap, but static libraries call what the program itself
 * defines. */
#include <malloc/malloc.h>
#include <stdlib.h>

#define ZONE malloc_default_zone()
#define __wrap_malloc malloc
#define __wrap_calloc calloc
#define __wrap_realloc realloc
#define __wrap_aligned_alloc aligned_alloc
#define __wrap_posix_memalign posix_memalign
#define __real_malloc(size) malloc_zone_malloc(ZONE, size)
#define __real_calloc(items, size) malloc_zone_calloc(ZONE, items, size)
#define __real_realloc(block, size) malloc_zone_realloc(ZONE, block, size)
#define __real_aligned_alloc(alignment, size) \
  malloc_zone_memalign(ZONE, alignment, size)

static int __real_posix_memalign(void **block, size_t alignment, size_t size) {
  *block = malloc_zone_memalign(ZONE, alignment, size);
  return *block == NULL ? ENOMEM : 0;
}

#else

void *__real_malloc(size_t size);
void *__real_calloc(size_t items, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **block, size_t alignment, size_t size);

#endif

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t items, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **block, size_t alignment, size_t size);

void *__wrap_malloc(size_t size) {
  return refuse() ? NULL : leave(__real_malloc(size));
}

void *__wrap_calloc(size_t items, size_t size) {
  return refuse() ? NULL : leave(__real_calloc(items, size));
}

void *__wrap_realloc(void *block, size_t size) {
  return refuse() ? NULL : leave(__real_realloc(block, size));
}

#ifndef _WIN32

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return refuse() ? NULL : leave(__real_aligned_alloc(alignment, size));
}

int __wrap_posix_memalign(void **block, size_t alignment, size_t size) {
  int error = ENOMEM;

  if (!refuse()) {
    error = __real_posix_memalign(block, alignment, size);
    depth--;
  }
  return error;
}

#endif
