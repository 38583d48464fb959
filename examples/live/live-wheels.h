/* SPDX-License-Identifier: MIT */

/* The wheels that the live page shows, as its own loop knows them.
 *
 * A wheel on that loop is read at once. One on another loop is asked through
 * its mailbox: its loop fills `taken`, which is its own until then, and the
 * page copies it into `shown`. So no figure is read while it changes, a loop
 * that sleeps is woken once a second while nobody views the page, and one that
 * is blocked does not block the page, which reports how long it has been so. */

#ifndef EXAMPLES_LIVE_WHEELS_H
#define EXAMPLES_LIVE_WHEELS_H

#include <stdatomic.h>

#include "live-figures.h"
#include "live-picture.h"

typedef struct live_look_s {
  live_snapshot_t snapshot;
  live_picture_t picture;
} live_look_t;

typedef struct live_view_s {
  live_wheel_t wheel;
  bool is_local; /* its loop is the page's */
  uvwheel_post_t post;
  uint64_t asked_ns;
  atomic_bool is_asked; /* then the next two belong to the wheel's loop */
  bool counts;          /* its slots, too                               */
  live_look_t taken;
  live_look_t shown;
  live_judged_t judged;
} live_view_t;

typedef struct live_wheels_s {
  live_view_t *views;
  size_t count;
} live_wheels_t;

/* Returns 0, UV_ENOMEM, or what uvwheel_open_mailbox returns; live_wheels_free
 * has to follow in any case. No loop but the page's may be running. */
int live_wheels_init(live_wheels_t *wheels, const live_wheel_t *shown,
                     size_t count, const uv_loop_t *loop);

/* When no loop of a wheel runs any more. */
void live_wheels_free(live_wheels_t *wheels);

/* Asks each wheel whose last answer has come; counts: to count the timers in
 * its slots as well. */
void live_wheels_ask(live_wheels_t *wheels, bool counts);

/* Shows what has been answered since. Returns whether all wheels have. */
bool live_wheels_collect(live_wheels_t *wheels);

/* Judges what is shown; to be called each LIVE_JUDGE_MS. */
void live_wheels_judge(live_wheels_t *wheels, uint64_t page_ms);

#endif /* EXAMPLES_LIVE_WHEELS_H */
