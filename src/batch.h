/* SPDX-License-Identifier: MIT */

/* Batches: callbacks that run one after the other, until turn_ms is over. */

#ifndef UVWHEEL_BATCH_H
#define UVWHEEL_BATCH_H

#include "loop.h"

typedef struct batch_s {
  uint64_t heard_ms; /* until when the loop had listened before */
  uint64_t begin_ns;
  uint64_t read_ns; /* when the clock was read last  */
  uint64_t unread;  /* callbacks since               */
  uint64_t took_us; /* known at the end              */
  bool is_over;
} batch_t;

void uvwheel__begin_batch(uvwheel_t *wheel, batch_t *batch);

/* One more callback has run. */
void uvwheel__count_callback(uvwheel_t *wheel, batch_t *batch);

void uvwheel__end_batch(uvwheel_t *wheel, batch_t *batch);

#endif /* UVWHEEL_BATCH_H */
