/* SPDX-License-Identifier: MIT */

/* A -Dchecks=true build names a timer whose memory was freed while it was
 * active, or overwritten. */

#include <inttypes.h>

#include "aborts.h"
#include "support.h"

#define TICK_MS 10

/* Scenario 61. One of many timers is freed while active, or overwritten: before
 * something is done with the others or with itself, or in the first callback of
 * that. Six are due at each tick, so that in a wheel with lanes some of them
 * are in the second one. */
#define CROWD 200u
#define PER_TICK 6u

static uvwheel_timer_t crowd[CROWD];
static unsigned gone;

/* An allocator's list of free memory begins where the links were. */
static void free_links(uvwheel_timer_t *timer) {
  memset(&timer->entry.link, 0x35, sizeof timer->entry.link);
}

static void clear_links(uvwheel_timer_t *timer) {
  memset(&timer->entry.link, 0, sizeof timer->entry.link);
}

/* What stands before it is too long. */
static void overrun(uvwheel_timer_t *timer) {
  *(char *)&timer->entry.link.prev ^= sizeof(void *);
}

static void clear(uvwheel_timer_t *timer) {
  memset(timer, 0, sizeof *timer);
}

static void fill(uvwheel_timer_t *timer) {
  memset(timer, 0xA5, sizeof *timer);
}

static void clear_next(uvwheel_timer_t *timer) {
  timer->entry.link.next = NULL;
}

static void on_crowd(uvwheel_timer_t *timer);

/* Its memory is used for another timer. */
static void reuse(uvwheel_timer_t *timer) {
  fill(timer);
  (void)uvwheel_timer_init(&wheel, timer);
  (void)uvwheel_timer_start(timer, on_crowd, 5000, 0);
}

/* How it goes, and what its memory is afterwards. (A close may stop the other
 * timer first.) */
enum { TIMER, NO_TIMER, MAYBE_TIMER };
static const struct {
  void (*go)(uvwheel_timer_t *timer);
  int memory;
} ways[] = {
    {free_links, TIMER}, {clear_links, TIMER}, {overrun, TIMER},
    {clear, NO_TIMER},   {fill, NO_TIMER},     {reuse, MAYBE_TIMER},
    {clear_next, TIMER},
};

static int way;

/* Before the others do something, in their first callback, or in a callback
 * that also stops them. */
enum { BEFORE, IN_CALLBACK, BEFORE_STOPS };
static int when;

static void stop_others(void);

static void on_crowd(uvwheel_timer_t *timer) {
  int now = when;

  (void)timer;
  when = BEFORE;
  if (now != BEFORE)
    ways[way].go(&crowd[gone]);
  if (now == BEFORE_STOPS)
    stop_others();
}

static void visit(uvwheel_timer_t *timer, void *arg) {
  (void)arg;
  on_crowd(timer);
}

static void stop_others(void) {
  unsigned i;

  for (i = 0; i < CROWD; i++)
    if (i != gone)
      (void)uvwheel_timer_stop(&crowd[i]);
}

static void restart_others(void) {
  unsigned i;

  for (i = 0; i < CROWD; i++)
    if (i != gone)
      (void)uvwheel_timer_start(&crowd[i], on_crowd, 1, 0);
}

static void pass(void) {
  run_for(1000);
}

static void draw_all(void) {
  (void)uvwheel_fire_soonest(&wheel, CROWD);
}

static void walk(void) {
  uvwheel_walk(&wheel, visit, NULL);
}

static void close_all(void) {
  uvwheel_close(&wheel, NULL);
}

static void stop_itself(void) {
  (void)uvwheel_timer_stop(&crowd[gone]);
}

static void restart_itself(void) {
  (void)uvwheel_timer_start(&crowd[gone], on_crowd, 1, 0);
}

/* The last two are the first of a lane, to which no other timer leads. */
static const unsigned places[] = {1, 2, 3, 5, 99, CROWD - 1, 4, 0};

/* Itself can be stopped if only its links are gone. */
static const struct {
  void (*act)(void);
  unsigned ways, places;
  bool has_callbacks;
  uint32_t turn_budget;
} acts[] = {
    {stop_others, LENGTH(ways) - 1, 6, false, 0},
    {restart_others, LENGTH(ways) - 1, 6, false, 0},
    {close_all, LENGTH(ways), LENGTH(places), false, 0},
    {stop_itself, 3, LENGTH(places), false, 0},
    {restart_itself, 3, LENGTH(places), false, 0},
    {pass, LENGTH(ways), LENGTH(places), true, 0},
    {pass, LENGTH(ways), LENGTH(places), true, 1},
    {draw_all, LENGTH(ways), LENGTH(places), true, 0},
    {walk, LENGTH(ways), LENGTH(places), true, 0},
};

static int act;

static void go_and_act(void) {
  if (when == BEFORE)
    ways[way].go(&crowd[gone]);
  acts[act].act();
}

static void expect_gone_is_named(void) {
  char begin[64], callback[128];
  const char *why[] = {callback,
                       "whose memory holds no timer of this wheel: its links "
                       "were overwritten, or it was freed while active",
                       ": its links were overwritten"};

  snprintf(begin, sizeof begin, "uvwheel: timer %p, ", (void *)&crowd[gone]);
  snprintf(callback, sizeof callback,
           "callback 0x%" PRIxPTR ": its links were overwritten",
           (uintptr_t)on_crowd);
  expect_abort_with(begin, go_and_act, why[ways[way].memory]);
}

/* Not just its neighbour, which is intact. */
START_TEST(a_timer_that_is_gone_is_named) {
  unsigned i, kind;

  act = _i;
  for (kind = 0; kind < SLOT_KINDS; kind++) {
    open_wheel_with(&(uvwheel_options_t){.tick_ms = TICK_MS,
                                         .slots = 16,
                                         .flags = slot_kinds[kind].flags,
                                         .turn_budget = acts[act].turn_budget});
    for (i = 0; i < CROWD; i++)
      begin_timer(&crowd[i], on_crowd, 100 + i / PER_TICK * TICK_MS, 0);
    for (i = 0; i < acts[act].places * acts[act].ways; i++) {
      gone = places[i % acts[act].places];
      way = (int)(i / acts[act].places);
      for (when = BEFORE; when <= BEFORE_STOPS; when++)
        if (when == BEFORE ||
            (acts[act].has_callbacks && gone % (CROWD - 1) != 0))
          expect_gone_is_named();
    }
    close_and_forget_wheel();
  }
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(a_timer_that_is_gone_is_named, acts),
  };

  return run_loop_tests("checks_gone", tests, LENGTH(tests));
}
