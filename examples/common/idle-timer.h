/* SPDX-License-Identifier: MIT */

/* One idle timeout per session of udp-sessions, made in one of three ways, so
 * that the same server can show what each of them costs:
 *
 *   wheel  one uvwheel_timer_t per session
 *   uv     one uv_timer_t per session
 *   none   no timeouts at all
 *
 * A server of your own needs no such switch, only the calls of the "wheel" part
 * of idle-timer.c. */

#ifndef EXAMPLES_IDLE_TIMER_H
#define EXAMPLES_IDLE_TIMER_H

#include <stddef.h>
#include <stdint.h>

#include <uv.h>
#include <uvwheel.h>

typedef struct idle_s idle_t;            /* one per loop       */
typedef union idle_timer_u idle_timer_t; /* one per session    */
typedef void (*idle_cb)(idle_timer_t *timer);

union idle_timer_u {
  uvwheel_timer_t wheel;
  uv_timer_t uv;
};

/* The three ways. Each timer is started once, refreshed at traffic, stopped
 * when its connection closes, and released when its memory is to be freed.
 * While max_timers of the options are in use, start returns UV_ENOBUFS. */
typedef struct idle_kind_s {
  const char *name;
  size_t timer_bytes; /* how much of an idle_timer_t is used */
  int (*open)(idle_t *idle, const uvwheel_options_t *options);
  void (*close)(idle_t *idle);
  int (*start)(idle_t *idle, idle_timer_t *timer);
  void (*refresh)(idle_timer_t *timer);
  void (*stop)(idle_timer_t *timer);
  void (*release)(idle_t *idle, idle_timer_t *timer);
} idle_kind_t;

struct idle_s {
  const idle_kind_t *kind;
  int sheds; /* the idlest makes room, see idle_start */
  int is_shedding;
  uv_loop_t *loop;
  uint64_t timeout_ms;
  idle_cb on_idle;     /* nothing happened for timeout_ms             */
  idle_cb on_released; /* the memory of a released timer may be freed */
  uvwheel_t wheel;     /* used by the kind "wheel" alone              */
  uint64_t max_timers; /* used by the others                          */
  uint64_t started;    /* their timers that are not released yet      */
};

/* Starts a timer, as its kind does. If max_timers are in use and the server
 * sheds, which only a wheel can, some of those that are due soonest are fired
 * first: on_idle is called for them, with is_shedding set, and has to stop
 * them. */
int idle_start(idle_t *idle, idle_timer_t *timer);

/* The kind of this name, or NULL. */
const idle_kind_t *idle_kind(const char *name);

#endif /* EXAMPLES_IDLE_TIMER_H */
