/* SPDX-License-Identifier: MIT */

#include "checks.h"

#ifdef UVWHEEL_CHECKS

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "binding.h"

void
uvwheel__misuse(const uvwheel_entry_t *entry, const char *what)
{
  const uvwheel_timer_t *timer =
      CONTAINER_OF((uvwheel_entry_t *)(uintptr_t)entry, uvwheel_timer_t, entry);

  fprintf(stderr, "uvwheel: timer %p, callback 0x%" PRIxPTR ": %s\n",
          (const void *)timer, (uintptr_t)timer->cb, what);
  abort();
}

#endif
