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
#include <stdio.h>

#include "live-figures.h"

/* ---- Slots -------------------------------------------------------------- */

/* The timers of a slot have to be counted one by one, in cold memory: a million
 * would stall the loop. So the slots are counted in small steps, which never
 * take more than their share of the time. With a million timers a count that
 * the page shows may be some seconds old. */

#define LIVE_INTERVAL_MS 250
#define LIVE_SHARE 100     /* one part in so many of the time */
#define LIVE_MAX_CELLS 512 /* more slots are shown in groups  */

typedef struct live_picture_s {
  uvwheel_t *wheel;
  uint64_t cell_count;
  uint64_t slots_per_cell;
  uint64_t cells[LIVE_MAX_CELLS]; /* timers in each, when last counted */
  uint64_t next_cell;             /* to count                          */
  uint64_t counted_ns;            /* when the last step was taken      */
  int64_t allowance_ns;           /* for the next step                 */
} live_picture_t;

/* Begins anew, with nothing counted. */
void live_picture_begin(live_picture_t *picture, uvwheel_t *wheel);

/* Takes the next step. */
void live_picture_count(live_picture_t *picture);

/* ---- Wheels ------------------------------------------------------------- */

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

/* Returns 0, UV_ENOMEM, UV_E2BIG (counts), or what uvwheel_open_mailbox
 * returns; live_wheels_free has to follow in any case. No loop but the page's
 * may be running. */
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

/* ---- Reports ------------------------------------------------------------ */

/* The reports of the wheels: to the live page frames of JSON; to Prometheus
 * metrics in its text format, with each wheel's name as a label.
 * uvwheel.rules.yml has alert rules for them. */

/* The facts that the wheels do not know. */
typedef struct live_facts_s {
  uint64_t timeout_ms;
  uint64_t page_ms; /* the page's clock, by which wheels are judged */
  uint64_t uptime_ms;
} live_facts_t;

void live_frame_write(FILE *stream, const live_wheels_t *wheels, size_t chosen,
                      const live_facts_t *facts);

#define LIVE_PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

void live_metrics_write(FILE *stream, const live_wheels_t *wheels);

#endif /* EXAMPLES_LIVE_WHEELS_H */
