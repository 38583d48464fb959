/* SPDX-License-Identifier: MIT */

#include "idle-timer.h"

#include <string.h>

/* ---- shared ------------------------------------------------------------ */

static int
open_nothing(idle_t *idle, const uvwheel_options_t *options)
{
  idle->max_timers = options->max_timers;
  return 0;
}

static void
close_nothing(idle_t *idle)
{
  (void)idle;
}

/* The wheel enforces its max_timers itself; this does the same for the others.
 */
static int
count_one_more(idle_t *idle)
{
  if (idle->max_timers != 0 && idle->started == idle->max_timers)
    return UV_ENOBUFS;
  idle->started++;
  return 0;
}

/* ---- wheel ------------------------------------------------------------- */

static void
on_wheel_timer(uvwheel_timer_t *timer)
{
  idle_t *idle = timer->data;

  idle->on_idle((idle_timer_t *)timer);
}

static int
wheel_open(idle_t *idle, const uvwheel_options_t *options)
{
  return uvwheel_init(idle->loop, &idle->wheel, options);
}

static void
wheel_close(idle_t *idle)
{
  uvwheel_close(&idle->wheel, NULL);
}

static int
wheel_start(idle_t *idle, idle_timer_t *timer)
{
  uvwheel_timer_init(&idle->wheel, &timer->wheel);
  timer->wheel.data = idle;
  return uvwheel_timer_start(&timer->wheel, on_wheel_timer, idle->timeout_ms,
                             0);
}

static void
wheel_refresh(idle_timer_t *timer)
{
  uvwheel_timer_refresh(&timer->wheel);
}

static void
wheel_stop(idle_timer_t *timer)
{
  uvwheel_timer_close(&timer->wheel);
}

/* Once closed, it is mere memory. */
static void
wheel_release(idle_t *idle, idle_timer_t *timer)
{
  idle->on_released(timer);
}

/* ---- uv ---------------------------------------------------------------- */

static void
on_libuv_timer(uv_timer_t *timer)
{
  idle_t *idle = timer->data;

  idle->on_idle((idle_timer_t *)timer);
}

static void
on_libuv_timer_closed(uv_handle_t *timer)
{
  idle_t *idle = timer->data;

  idle->on_released((idle_timer_t *)timer);
}

/* The clock of libuv drops fractions of a millisecond, so that a uv_timer_t
 * may fire up to 1 ms early (libuv#4773): to promise "never early", as the
 * wheel does, takes one millisecond more. */
static int
libuv_start(idle_t *idle, idle_timer_t *timer)
{
  int error = count_one_more(idle);

  if (error != 0)
    return error;
  uv_timer_init(idle->loop, &timer->uv);
  timer->uv.data = idle;
  return uv_timer_start(&timer->uv, on_libuv_timer, idle->timeout_ms + 1,
                        idle->timeout_ms + 1);
}

static void
libuv_refresh(idle_timer_t *timer)
{
  uv_timer_again(&timer->uv);
}

static void
libuv_stop(idle_timer_t *timer)
{
  uv_timer_stop(&timer->uv);
}

static void
libuv_release(idle_t *idle, idle_timer_t *timer)
{
  idle->started--;
  uv_close((uv_handle_t *)&timer->uv, on_libuv_timer_closed);
}

/* ---- none -------------------------------------------------------------- */

static int
none_start(idle_t *idle, idle_timer_t *timer)
{
  (void)timer;
  return count_one_more(idle);
}

static void
none_refresh_or_stop(idle_timer_t *timer)
{
  (void)timer;
}

static void
none_release(idle_t *idle, idle_timer_t *timer)
{
  idle->started--;
  idle->on_released(timer);
}

/* ---- all --------------------------------------------------------------- */

static const idle_kind_t kinds[] = {
    {
        .name = "wheel",
        .timer_bytes = sizeof(uvwheel_timer_t),
        .open = wheel_open,
        .close = wheel_close,
        .start = wheel_start,
        .refresh = wheel_refresh,
        .stop = wheel_stop,
        .release = wheel_release,
    },
    {
        .name = "uv",
        .timer_bytes = sizeof(uv_timer_t),
        .open = open_nothing,
        .close = close_nothing,
        .start = libuv_start,
        .refresh = libuv_refresh,
        .stop = libuv_stop,
        .release = libuv_release,
    },
    {
        .name = "sweep", /* of idle-server alone: rivals/rival-sweep.c */
        .timer_bytes = 3 * sizeof(uint64_t),
    },
    {
        .name = "none",
        .timer_bytes = 0,
        .open = open_nothing,
        .close = close_nothing,
        .start = none_start,
        .refresh = none_refresh_or_stop,
        .stop = none_refresh_or_stop,
        .release = none_release,
    },
};

const idle_kind_t *
idle_kind(const char *name)
{
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
    if (strcmp(kinds[i].name, name) == 0)
      return &kinds[i];
  return NULL;
}

/* One in so many is shed at once: the closes of some connections are done
 * together, and none is closed long before its place is needed. */
#define SHED_SHARE 1024

int
idle_start(idle_t *idle, idle_timer_t *timer)
{
  int error = idle->kind->start(idle, timer);

  if (error != UV_ENOBUFS || !idle->sheds)
    return error;
  idle->is_shedding = 1;
  uvwheel_fire_soonest(&idle->wheel,
                       1 + uvwheel_count(&idle->wheel) / SHED_SHARE);
  idle->is_shedding = 0;
  return idle->kind->start(idle, timer);
}
