/* SPDX-License-Identifier: MIT */

/* What is sent to the live page, as JSON: the table of figures once, then
 * frames. */

#ifndef EXAMPLES_LIVE_FRAME_H
#define EXAMPLES_LIVE_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "live-wheels.h"

/* What the wheels do not know. */
typedef struct live_facts_s {
  uint64_t timeout_ms;
  uint64_t viewers;
} live_facts_t;

/* The most bytes in a frame of that many wheels. */
#define LIVE_FRAME_SIZE(wheels) (16384 + (wheels) * (size_t)768)

/* Each writes one line, without its end. */
void live_frame_write_figures(FILE *stream);
void live_frame_write(FILE *stream, const live_wheels_t *wheels, size_t chosen,
                      const live_facts_t *facts);

#endif /* EXAMPLES_LIVE_FRAME_H */
