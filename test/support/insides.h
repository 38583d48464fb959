/* SPDX-License-Identifier: MIT */

/* What tests see of the private state of a wheel. No other C file of the
 * tests names the fields of uvwheel_state_t. */

#ifndef INSIDES_H
#define INSIDES_H

#include "binding.h"

typedef struct insides_s {
  void *memory; /* of the state, without the core's slots */
  size_t size;
  core_t *core;
  const uv_timer_t *driver;
  const uv_idle_t *idle;
  phase_t phase;
  bool others_wake;
  uint64_t run_by_ms;
  uint64_t ran_ms;
  const stall_t *stall;
  uint64_t quiet_ms;
  uint64_t budget;
  uint64_t wait_began_ms;
  bool wait_began_anew;
  uint64_t busy_ms;
  uint64_t busy_polls;
} insides_t;

/* The wheel was initialised, and its close is not finished. */
static inline insides_t insides_of(const uvwheel_t *wheel) {
  uvwheel_state_t *state = get_state(wheel);
  const wake_t *wake = &state->wake;
  const listen_t *listen = &state->listen;

  return (insides_t){.memory = state,
                     .size = sizeof *state,
                     .core = &state->core,
                     .driver = &wake->driver,
                     .idle = &wake->idle,
                     .phase = wake->phase,
                     .others_wake = wake->others_wake,
                     .run_by_ms = wake->run_by_ms,
                     .ran_ms = wake->ran_ms,
                     .stall = &state->stall,
                     .quiet_ms = listen->quiet_ms,
                     .budget = listen->budget,
                     .wait_began_ms = listen->wait_began_ms,
                     .wait_began_anew = listen->wait_began_anew,
                     .busy_ms = listen->busy_ms,
                     .busy_polls = listen->busy_polls};
}

#endif /* INSIDES_H */
