/* SPDX-License-Identifier: MIT */

/* Shared by the files of uvwheel-try. Its command preloads them, as one shared
 * library, into a program that links libuv dynamically:
 *
 *   serve.c   the uv_timer_* functions that the program then calls
 *   loops.c   a record of each loop, and the loop's wheel
 *   report.c  counts and times the calls, and reports
 *   libuv.c   how the functions of libuv itself are reached
 *
 * With uv the functions count, and libuv does the work. With a wheel each
 * uv_timer_t is served by it, and libuv's heap holds the wheel's own alone. */

#ifndef TRY_H
#define TRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <uvwheel.h>

/* ---- libuv.c ------------------------------------------------------------ */

/* The functions of libuv that serve.c replaces. The wheel's sources are
 * compiled to call these: see tools/try/meson.build. */
int real_uv_timer_init(uv_loop_t *loop, uv_timer_t *handle);
int real_uv_timer_start(uv_timer_t *handle, uv_timer_cb cb, uint64_t timeout,
                        uint64_t repeat);
int real_uv_timer_stop(uv_timer_t *handle);
int real_uv_timer_again(uv_timer_t *handle);
void real_uv_timer_set_repeat(uv_timer_t *handle, uint64_t repeat);
void real_uv_close(uv_handle_t *handle, uv_close_cb cb);
void real_uv_walk(uv_loop_t *loop, uv_walk_cb cb, void *arg);
int real_uv_loop_init(uv_loop_t *loop);
int real_uv_loop_close(uv_loop_t *loop);

/* libuv's own, in every 1.x: uv_handle_t.flags */
#define UV__HANDLE_ACTIVE 4u
#define UV__HANDLE_REF 8u

/* Ends the process with a complaint unless the libuv that it uses keeps its
 * handles as the one for which this was built. */
void expect_known_libuv(void);

/* ---- report.c ----------------------------------------------------------- */

typedef enum kind_e {
  INIT,
  START,
  AGAIN,
  STOP,
  CLOSE,
  EXPIRE_STOP,  /* libuv fires a timer: it is stopped,                    */
  EXPIRE_AGAIN, /* and started again if it repeats                       */
  TURN,         /* a wheel's check or driver, without timers' callbacks   */
  KINDS
} kind_t;

/* Calls of one kind. */
typedef struct cost_s {
  uint64_t calls;
  uint64_t timed; /* without those that were interrupted */
  uint64_t ns;    /* what these took                     */
} cost_t;

/* Counts of all that the timers of a loop did; add_tally adds them up, and
 * takes the greatest of the last one. */
typedef struct tally_s {
  cost_t costs[KINDS];
  uint64_t loops; /* that had this tally, one after the other */
  uint64_t fired;
  uint64_t restarted; /* of the starts and agains: the timer was active, or
                       the program had stopped it */
  uint64_t open, open_most;     /* initialised and not closed            */
  uint64_t late_count, late_ns; /* timers whose lateness is known, in all */
  uint64_t late_most_ns;
} tally_t;

typedef struct stopwatch_s {
  cost_t *cost;
  uint64_t began_ns;
} stopwatch_t;

/* Counts a call, and starts the stopwatch. */
stopwatch_t begin_call(tally_t *tally, kind_t kind);
void end_call(const stopwatch_t *watch);

/* The same for a turn of a wheel that has ended, which is longer the more
 * timers it has looked at; callbacks_ns is not its own. */
void end_turn(const stopwatch_t *watch, uint64_t ended_ns,
              uint64_t callbacks_ns, uint64_t looked);

/* A time in ns, and the cost of reading it. */
uint64_t now_ns(void);
uint64_t clock_ns(void);

/* A timer fires. One that fires early counts as punctual. */
void note_late(tally_t *tally, uint64_t due_ns, uint64_t fired_ns);

/* The process has a timer: from now on a signal that ends it is reported. */
void begin_reports(void);

/* ---- loops.c ------------------------------------------------------------ */

/* A loop's record. It is never freed: a signal handler and handles that are
 * closed may refer to it. The next loop takes one that is free. */
typedef struct record_s record_t;
struct record_s {
  _Atomic(uv_loop_t *) loop; /* NULL: the record is free */
  record_t *next;
  tally_t tally;
  bool is_in_libuv;    /* a function of libuv runs, which calls others */
  bool is_in_callback; /* of a timer                                   */
  bool is_tried;       /* to make a wheel                              */
  bool has_wheel;
  uvwheel_t wheel;
  stopwatch_t turn;
  uint64_t callbacks_ns; /* the time of the program's callbacks in it */
  uint64_t examined;     /* timers that the wheel had examined before */
};

/* As the command's options say. */
typedef struct settings_s {
  bool with_wheel;
  uint64_t tick_ms;
  const char *output; /* a path; empty: stderr                      */
  long command_pid;   /* the process that the command has become   */
} settings_t;
extern settings_t settings;

/* The newest of all records; they are linked. */
extern _Atomic(record_t *) records;

/* NULL: no timer of this loop was ever initialised. */
record_t *find_record(const uv_loop_t *loop);

/* The loop's record, made on first use, with its wheel; NULL: no memory. */
record_t *make_record(uv_loop_t *loop);

/* Is it a handle of the wheel that make_record has added to the loop? */
bool is_own_handle(const record_t *record, const uv_handle_t *handle);

/* Closes the wheel if nothing else is left in the loop. */
void close_own_handles(record_t *record);

/* The loop is gone. If it was not closed, the record must not be used again. */
void release_record(record_t *record, bool closed);

/* The wheel's sources call these instead of uv_check_start and uv_timer_start,
 * so that its turns are timed. */
int timed_uv_check_start(uv_check_t *check, uv_check_cb cb);
int timed_uv_timer_start(uv_timer_t *driver, uv_timer_cb cb, uint64_t timeout,
                         uint64_t repeat);

#endif /* TRY_H */
