/* SPDX-License-Identifier: MIT */

#include "insides.h"
#include "invariants.h"

static bool is_active(const void *handle) {
  return uv_is_active((const uv_handle_t *)handle) != 0;
}

/* Others may have closed them. */
static bool may_wake(const insides_t *insides) {
  bool is_in_spell = insides->phase == IN_SPELL;

  if (IS_CLOSING(*insides->driver) || IS_CLOSING(*insides->idle))
    return true;
  if (insides->phase == DISARMED || is_in_spell)
    return !is_active(insides->driver) &&
           is_active(insides->idle) == is_in_spell;
  return !is_active(insides->idle);
}

int broken_wheel_invariants(const uvwheel_t *wheel, FILE *stream) {
  insides_t insides;
  int broken;

  if (uvwheel_get_loop(wheel) == NULL)
    return 0;
  insides = insides_of(wheel);
  broken = broken_invariants(insides.core, stream);
  if (!may_wake(&insides)) {
    fputs("the driver or the idle handle is not as the phase has it\n", stream);
    broken++;
  }
  return broken;
}
