/* SPDX-License-Identifier: MIT */

/* Timers that may fire early, which a test timer must not, and what holds after
 * uvwheel_fire_soonest. */

#ifndef SOONEST_H
#define SOONEST_H

#include "support.h"

#define TIMERS 400u
#define TICK_MS 10

typedef struct waiter_s waiter_t;

struct waiter_s {
  uvwheel_timer_t timer;
  uint64_t due_ms;   /* on the wheel's clock, when it was last armed */
  uint64_t fired_ms; /* on that clock                              */
  unsigned fired;
  void (*then)(waiter_t *); /* what the callback does; NULL for nothing */
};

extern waiter_t waiters[TIMERS];

/* Those that fired, in their order. */
extern unsigned order[2 * TIMERS], order_length;

/* Opens the wheel and initialises them. */
void open_waiters(const uvwheel_options_t *options);
void open_plain_waiters(void);

unsigned number_of(const waiter_t *waiter);
void waiter_start(unsigned i, uint64_t timeout);

/* Starts the first ones, each to be due step_ms after the one before it. */
void start_waiters(unsigned count, uint64_t first_ms, uint64_t step_ms);

/* What the callbacks of all do. */
void set_then(void (*then)(waiter_t *));

/* Their callback. */
void on_waiter(uvwheel_timer_t *timer);

/* The tick at which one should fire. */
uint64_t tick_of(const waiter_t *waiter);

/* That many have fired, all early and each once, and none that waits is due at
 * an earlier tick than one of them. */
void expect_the_soonest_fired(unsigned count);

/* The rest fires, each at its tick, and then all have fired once. */
void expect_the_rest_in_time(unsigned all, uint64_t within_ms);

#endif /* SOONEST_H */
