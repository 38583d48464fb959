/* SPDX-License-Identifier: MIT */

#include "allocations.h"

#include <errno.h>
#include <stddef.h>

static uint64_t count;
static bool failing;

uint64_t
allocations(void)
{
  return count;
}

void
allocations_fail(bool fail)
{
  failing = fail;
}

static bool
refuse(void)
{
  count++;
  if (failing)
    errno = ENOMEM;
  return failing;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t items, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **block, size_t alignment, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t items, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **block, size_t alignment, size_t size);

void *
__wrap_malloc(size_t size)
{
  return refuse() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t items, size_t size)
{
  return refuse() ? NULL : __real_calloc(items, size);
}

void *
__wrap_realloc(void *block, size_t size)
{
  return refuse() ? NULL : __real_realloc(block, size);
}

void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
  return refuse() ? NULL : __real_aligned_alloc(alignment, size);
}

int
__wrap_posix_memalign(void **block, size_t alignment, size_t size)
{
  return refuse() ? ENOMEM : __real_posix_memalign(block, alignment, size);
}
