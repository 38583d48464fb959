/* SPDX-License-Identifier: MIT */

/* A fuzz target: bytes are operations on a wheel, which has to agree with the
 * model of test/model. With play_wheel.c it is one for the wheel alone, with
 * play_binding.c one for the wheel on a loop. README.md says how to run it. */

#include "../model/play.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  play(data, size);
  return 0;
}
