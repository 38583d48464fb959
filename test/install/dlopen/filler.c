/* SPDX-License-Identifier: MIT */

/* A library that takes 8 bytes of what the loader keeps for thread-local
 * variables of libraries that come late. */

#include <stdint.h>

uint64_t *filler(void);

static _Thread_local __attribute__((tls_model("initial-exec"))) uint64_t word;

uint64_t *
filler(void)
{
  return &word;
}
