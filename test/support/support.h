/* SPDX-License-Identifier: MIT */

/* What the tests of the binding share: a loop in virtual time, a wheel on it,
 * and timers that record how they fire. */

#ifndef SUPPORT_H
#define SUPPORT_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <uv.h>

#include "core_support.h"
#include "older_libuv.h"
#include "suite.h"
#include "uvwheel.h"
#include "virtual_time.h"

/* The loop's time when a test begins. */
#define START_MS UINT64_C(1000037)

extern uv_loop_t loop;
extern uvwheel_t wheel;

/* Runs a suite, to be returned by main. Each test begins with a loop at
 * START_MS. It ends by closing the wheel, if one was opened, and the handles
 * that are not a wheel's, and with uv_loop_close() == 0. */
int run_loop_tests(const char *name, const loop_test_t *tests, size_t count);

void open_wheel(uint64_t tick_ms, uint32_t slots);
void open_wheel_with(const uvwheel_options_t *options);

/* That init fails, and leaves the wheel as one that is all zeros. */
void expect_init_fails(uv_loop_t *on, const uvwheel_options_t *options,
                       int error);

/* A wheel that puts no timer back, however late the loop is. */
void open_wheel_without_stalls(uint64_t tick_ms, uint32_t slots);

/* Closes it before the test ends, to open another. */
void close_and_forget_wheel(void);

/* Everything that must hold for the wheel at any time. */
void verify_wheel(void);

/* When a timer of the wheel that is due then fires. */
uint64_t fires_at(uint64_t due_ms);

/* Runs the loop for that long, even when nothing keeps it alive. */
void run_for(uint64_t ms);

/* Runs one turn of the wheel if something is due. No time passes. */
void run_turn(void);

/* The loop is on time until a millisecond before the tick of that due time, and
 * comes to it late by so much. */
void come_late(uint64_t due_ms, uint64_t late_ms);

/* Sets the clock back to the beginning. A test that moves it by more than half
 * an hour ends with this: check measures tests by the same clock, in an int of
 * microseconds. */
void rewind_clock(void);

/* These move the clock, and have the loop see it. */
void set_clock_ms(uint64_t ms);
void advance_loop_ms(uint64_t ms);

/* Initialise on the loop, or on the wheel, and start. */
void begin_uv_timer(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout,
                    uint64_t repeat);
void ignore_uv_timer(uv_timer_t *timer); /* a callback */
void begin_prepare(uv_prepare_t *prepare, uv_prepare_cb cb);
void begin_timer(uvwheel_timer_t *timer, uvwheel_timer_cb cb, uint64_t timeout,
                 uint64_t repeat);

/* Callbacks: one counts in the unsigned at the timer's `data`. */
void count_timer(uvwheel_timer_t *timer);
void ignore_post(uvwheel_post_t *post, int status);

/* Allocates, initialises and starts that many, each by step_ms later than the
 * one before. Each has the data. To be freed. */
uvwheel_timer_t *begin_timers(unsigned count, uvwheel_timer_cb cb,
                              uint64_t timeout, uint64_t step_ms, void *data);

/* Closes all that uv_walk finds, as a careless program does, except the loop's
 * timer for run_for. Returns how many handles there were. */
unsigned close_all_handles(void);

/* The handles that a wheel without a mailbox adds to its loop. */
#ifdef UVWHEEL_CHECKS
#define WHEEL_HANDLES 4u
#else
#define WHEEL_HANDLES 3u
#endif

/* How many handles uv_walk finds, except the one for run_for; and which, as far
 * as there is room. */
unsigned handle_count(void);
unsigned list_handles(uv_handle_t **list, unsigned room);

/* A uvwheel_close_cb and how often it was called. */
extern unsigned wheels_closed;
void on_wheel_closed(uvwheel_t *closed);

/* To be called when the wheel is closed and its memory gone. */
void forget_wheel(void);

uvwheel_stats_t stats_of_wheel(void);

/* ---- Test timers --------------------------------------------------------- */

/* Timers that record how they fire and check what holds whenever they do. */

typedef struct test_timer_s test_timer_t;

struct test_timer_s {
  uvwheel_timer_t base;
  unsigned fired;
  uint64_t due_ms;              /* as of the last start, refresh or callback */
  uint64_t fired_ms;            /* of the last callback   */
  void (*then)(test_timer_t *); /* what the callback does; NULL for nothing */
  void *arg;
  bool may_be_early; /* by uvwheel_fire_soonest */
};

/* How many callbacks of test timers ran. */
extern unsigned fired_in_all;

/* In uninitialised memory, on the wheel. */
void test_timer_init(test_timer_t *timer);
void test_timer_init_all(test_timer_t *timers, size_t count);

/* The functions of the same names; they must succeed. */
void test_timer_start(test_timer_t *timer, uint64_t timeout, uint64_t repeat);
void test_timer_expect(test_timer_t *timer, uint64_t timeout);
void test_timer_refresh(test_timer_t *timer);
void test_timer_again(test_timer_t *timer);
void test_timer_stop(test_timer_t *timer);

/* Initialises and starts. */
void begin_test_timer(test_timer_t *timer, uint64_t timeout, uint64_t repeat);

/* It measures silence: it is expected or, if it repeats, refreshed. */
void begin_heard_timer(test_timer_t *timer, uint64_t timeout, uint64_t repeat);

/* The callback of test timers. It checks that the timer is not early unless it
 * may be, and that it has no time left unless it repeats. */
void on_test_timer(uvwheel_timer_t *timer);

/* Starts the timer and runs the loop: it fires once, at the first tick after
 * it is due, not before. */
void expect_punctual(test_timer_t *timer, uint64_t timeout);

#endif /* SUPPORT_H */
