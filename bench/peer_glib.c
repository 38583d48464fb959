/* SPDX-License-Identifier: MIT */

/* GLib's main loop. Its timers are objects of its own, and each iteration looks
 * at all of them. */

#include "bench.h"

#include "clock.h"

#include <glib.h>

#define US_PER_MS 1000

static GMainContext *context;
static gint64 timeout_us;
static gboolean ended;

static void
start_for(GSource *timer, gint64 us)
{
  g_source_set_ready_time(timer, g_get_monotonic_time() + us);
}

static gboolean
on_timeout(GSource *timer, GSourceFunc callback, gpointer data)
{
  (void)callback;
  (void)data;
  bench_fired++;
  if (bench_rearm_ms != NULL)
    start_for(timer, (gint64)bench_next_rearm_ms() * US_PER_MS);
  else
    g_source_set_ready_time(timer, -1);
  return G_SOURCE_CONTINUE;
}

static gboolean
on_end(GSource *timer, GSourceFunc callback, gpointer data)
{
  (void)timer;
  (void)callback;
  (void)data;
  ended = TRUE;
  return G_SOURCE_REMOVE;
}

static GSourceFuncs timer_functions = {.dispatch = on_timeout};
static GSourceFuncs end_functions = {.dispatch = on_end};

static GSource *
new_timer(GSourceFuncs *functions)
{
  GSource *timer = g_source_new(functions, sizeof(GSource));

  g_source_attach(timer, context);
  return timer;
}

static void
init_one(void *memory)
{
  GSource **timer = memory;

  *timer = new_timer(&timer_functions);
}

static void
start_one(void *memory)
{
  GSource **timer = memory;

  start_for(*timer, timeout_us);
}

static void
refresh_one(void *memory)
{
  GSource **timer = memory;

  start_for(*timer, (gint64)BENCH_TIMEOUT_MS * US_PER_MS);
}

static void
stop_one(void *memory)
{
  GSource **timer = memory;

  g_source_set_ready_time(*timer, -1);
}

static void
release_one(void *memory)
{
  GSource **timer = memory;

  g_source_destroy(*timer);
  g_source_unref(*timer);
}

BENCH_OPERATIONS
BENCH_OPERATION(release)

static void
set_times(uint64_t timeout_ms, uint64_t repeat_ms)
{
  (void)repeat_ms;
  timeout_us = (gint64)timeout_ms * US_PER_MS;
}

/* Virtual time, as epoll_wait in clock.c. */
static gint
sleep_for(GPollFD *fds, guint count, gint timeout_ms)
{
  (void)fds;
  (void)count;
  if (timeout_ms < 0)
    bench_die("GLib: the loop would sleep for ever");
  clock_move_ms((uint64_t)timeout_ms);
  return 0;
}

static void
open_context(void)
{
  context = g_main_context_new();
  g_main_context_set_poll_func(context, sleep_for);
}

static void
close_context(void)
{
  g_main_context_unref(context);
}

static void
nothing(void)
{
}

static void
turn(void)
{
  g_main_context_iteration(context, FALSE);
}

static void
run(uint64_t ms)
{
  GSource *end = new_timer(&end_functions);

  start_for(end, (gint64)ms * US_PER_MS);
  for (ended = FALSE; !ended;)
    g_main_context_iteration(context, TRUE);
  g_source_unref(end);
}

static const struct operations operations = {
    .timer_bytes = sizeof(GSource *),
    .close = close_context,
    .set_times = set_times,
    .init = init,
    .start = start,
    .refresh = refresh,
    .stop = stop,
    .stop_start = stop_start,
    .release = release,
    .advance = nothing,
    .turn = turn,
    .run = run,
};

const struct peer peer_glib = {
    .name = "GLib GSource",
    .traits = TRAIT_BASIC | TRAIT_TIMEOUTS | TRAIT_FEW,
    .open = open_context,
    .can = &operations,
};
