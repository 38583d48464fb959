/* SPDX-License-Identifier: MIT */

/* What a wheel promises, the slow and obvious way: a plain array that knows
 * when each timer is due. */

#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* Clocks stay below this. */
#define CLOCK_END_MS (UINT64_C(1) << 63)

/* More than the wheel looks at in one go. */
#define MODEL_TIMERS 300

/* How many ticks the model remembers. Beyond that it gives up until no timer is
 * active. */
#define MODEL_TICKS 400

/* What the draw that is going on makes of a timer. */
typedef enum model_draw_e {
  KEPT,
  MAYBE, /* one of those due at the last tick, of which some are drawn */
  DRAWN,
} model_draw_t;

typedef struct model_timer_s {
  bool active;
  uint64_t due_ms;
  model_draw_t draw;
  /* Its place in its tick's queue, 0 if it was postponed since it was put
   * there: then it lines up when the hand happens to find it. */
  uint64_t place;
  bool must_visit; /* by the walk: active and not moved since it began */
  unsigned visits;
} model_timer_t;

typedef struct model_s {
  uint64_t tick_ms;
  bool fifo;
  bool walking; /* a walk is going on        */
  bool drawing; /* a draw is going on        */
  unsigned capacity;
  unsigned count; /* of active timers */
  uint64_t places;
  uint64_t latest_ms; /* the last tick of those that are drawn     */
  uint64_t drawn;
  uint64_t taken;
  uint64_t disturbed; /* timers that others may have drawn no more */
  unsigned ticks;     /* remembered; more than MODEL_TICKS: it gave up */
  uint64_t ticks_ms[MODEL_TICKS];
  model_timer_t timers[MODEL_TIMERS];
} model_t;

/* The time of the first tick after due_ms; UINT64_MAX if it is not reached. */
uint64_t model_tick_ms(const model_t *model, uint64_t due_ms);

/* When the first timer has to expire, those that may be drawn excepted. */
uint64_t model_earliest_ms(const model_t *model);

/* An entry that is due then was in the wheel. */
void model_remember_tick(model_t *model, uint64_t due_ms);

/* Is there a tick of a timer between the two times, or was there since the
 * wheel was empty, so that the wheel has a reason to wake up for it? */
bool model_has_tick(const model_t *model, uint64_t from_ms, uint64_t to_ms);

/* The wheel has fired all that was due by then. */
void model_forget_ticks(model_t *model, uint64_t by_ms);

/* The timer, active or not, takes its place among those of a tick. */
void model_put(model_t *model, unsigned index, uint64_t due_ms);

/* The active timer becomes due later, and moves when the hand finds it. */
void model_postpone(model_t *model, unsigned index, uint64_t due_ms);

void model_remove(model_t *model, unsigned index);

/* The timer expired: it was active, is not early, those of earlier ticks have
 * gone before it and, in a FIFO wheel, those before it in its tick. */
void model_expire(model_t *model, unsigned index, uint64_t now_ms);

/* Up to `count` timers are about to be handed out before their time, those that
 * are due soonest. Returns how many. */
uint64_t model_draw(model_t *model, uint64_t count);

/* One of them is handed out, before those of later ticks and, in a FIFO wheel,
 * before those behind it, unless one of them was touched since. */
void model_take_drawn(model_t *model, unsigned index);

/* All of them have been handed out, except what has been put elsewhere, unless
 * the draw was broken off. */
void model_end_draw(model_t *model, bool broken_off);

void model_walk_begin(model_t *model);
void model_walk_visit(model_t *model, unsigned index);

/* Those that were there all the while have been visited once. */
void model_walk_end(model_t *model);

#endif /* MODEL_H */
