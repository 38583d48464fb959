/* SPDX-License-Identifier: MIT */

/* Shared by all rivals. A rival includes this before echo.c, which then calls
 * the rival's functions. The server's own functions get the names that RIVAL
 * makes. There is one server in a process. */

#define echo_init RIVAL(init)
#define echo_on_connection RIVAL(on_connection)
#define echo_stop RIVAL(stop)
#define echo_format RIVAL(format)

#include "rivals.h"

#ifndef rival_end /* a rival with a handle of its own closes it there */
#define rival_end() ((void)0)
#endif

#define uvwheel_timer_t rival_timer_t
#define uvwheel_timer_init(wheel, timer) ((void)(wheel), (void)(timer))
#define uvwheel_timer_start(timer, cb, timeout, repeat) \
  rival_start(timer, cb, timeout)
#define uvwheel_timer_refresh rival_refresh
#define uvwheel_timer_set_repeat(timer, repeat) ((void)(timer), (void)(repeat))
#define uvwheel_timer_close rival_close
#define uvwheel_init rival_open
#define uvwheel_close(wheel, cb) ((void)(wheel), rival_end())
#define uvwheel_count(wheel) ((void)(wheel), UINT64_C(0))
#define uvwheel_fire_soonest(wheel, count) ((void)(wheel), (void)(count))
#define uvwheel_owns_handle(handle) ((void)(handle), 0)

static struct {
  uv_loop_t *loop;
  uint64_t timers, max_timers;
} rival;

static int rival_open(uv_loop_t *loop, uvwheel_t *wheel,
                      const uvwheel_options_t *options) {
  (void)wheel;
  rival.loop = loop;
  rival.max_timers = options->max_timers;
  return 0;
}

/* A wheel limits its timers itself. */
static int count_timer(void) {
  if (rival.max_timers != 0 && rival.timers == rival.max_timers)
    return UV_ENOBUFS;
  rival.timers++;
  return 0;
}
