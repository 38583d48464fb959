/* SPDX-License-Identifier: MIT */

#include "insides.h"
#include "invariants.h"

int broken_wheel_invariants(const uvwheel_t *wheel, FILE *stream) {
  return uvwheel_get_loop(wheel) != NULL
             ? broken_invariants(insides_of(wheel).core, stream)
             : 0;
}
