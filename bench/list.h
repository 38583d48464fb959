/* SPDX-License-Identifier: MIT */

/* Timers in lists, for the rivals that have them. */

#ifndef BENCH_LIST_H
#define BENCH_LIST_H

#include <stdint.h>

struct timer {
  struct timer *prev, *next;
  uint64_t ms; /* when it is due, or was heard */
};

static void append(struct timer *list, struct timer *timer) {
  timer->prev = list->prev;
  timer->next = list;
  list->prev->next = timer;
  list->prev = timer;
}

static void take_out(struct timer *timer) {
  timer->prev->next = timer->next;
  timer->next->prev = timer->prev;
}

static void init_one(void *memory) {
  struct timer *timer = memory;

  timer->prev = timer->next = timer;
}

static void stop_one(void *timer) {
  take_out(timer);
  init_one(timer);
}

#endif /* BENCH_LIST_H */
