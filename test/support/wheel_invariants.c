/* SPDX-License-Identifier: MIT */

#include "binding.h"
#include "invariants.h"

int broken_wheel_invariants(const uvwheel_t *wheel, FILE *stream) {
  const uvwheel_state_t *state = get_state(wheel);

  return state != NULL ? broken_invariants(&state->core, stream) : 0;
}
