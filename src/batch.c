/* SPDX-License-Identifier: MIT */

#include "binding.h"

/* The most callbacks between two reads of the clock. A read takes some 25 ns,
 * as long as a quick callback and its expiry. */
#define MAX_UNREAD 16

/* A clock that a test has set back counts as one that stands still. */
static uint64_t
ns_between(uint64_t then_ns, uint64_t now_ns)
{
  return now_ns > then_ns ? now_ns - then_ns : 0;
}

void
uvwheel__begin_batch(uvwheel_t *wheel, batch_t *batch)
{
  uvwheel__add_blocked(wheel);
  batch->blocked_ms = wheel->blocked_ms;
  batch->begin_ns = uv_hrtime();
  batch->read_ns = batch->begin_ns;
  batch->unread = 0;
  batch->is_over = false;
}

/* Reads the clock after each slow callback, and from time to time between quick
 * ones, judging by the last ones. */
void
uvwheel__check_time(uvwheel_t *wheel, batch_t *batch)
{
  uint64_t now_ns;

  if (++batch->unread < wheel->read_every)
    return;
  now_ns = uv_hrtime();
  if (ns_between(batch->read_ns, now_ns) > wheel->turn_ns / 8)
    wheel->read_every = 1;
  else if (wheel->read_every < MAX_UNREAD)
    wheel->read_every *= 2;
  batch->read_ns = now_ns;
  batch->unread = 0;
  batch->is_over = ns_between(batch->begin_ns, now_ns) >= wheel->turn_ns;
}

void
uvwheel__end_batch(uvwheel_t *wheel, const batch_t *batch)
{
  uint64_t took_us = ns_between(batch->begin_ns, uv_hrtime()) / 1000;

  if (took_us > wheel->stats.wakeup_max_us)
    wheel->stats.wakeup_max_us = took_us;
  uvwheel__forget_own(wheel, batch->blocked_ms);
}
