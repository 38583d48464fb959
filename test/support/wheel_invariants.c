/* SPDX-License-Identifier: MIT */

#include "binding.h"
#include "invariants.h"

int
broken_wheel_invariants(const uvwheel_t *wheel, FILE *stream)
{
  return is_wheel(wheel) ? broken_invariants(&wheel->state->core, stream) : 0;
}
