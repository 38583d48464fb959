/* SPDX-License-Identifier: MIT */

/* What this process has used so far. */

#ifndef EXAMPLES_USAGE_H
#define EXAMPLES_USAGE_H

#include <stdint.h>

typedef struct usage_s {
  double cpu_s;         /* of all threads, in the kernel as well */
  uint64_t rss_kib;     /* resident memory                       */
  uint64_t max_rss_kib; /* the most that there was               */
} usage_t;

usage_t usage_of_process(void);

#endif /* EXAMPLES_USAGE_H */
