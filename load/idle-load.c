/* SPDX-License-Identifier: MIT */

/* A load for idle-server, and a judge of it from outside.
 *
 * Opens many connections. The chatty ones send a message at random intervals
 * and check that its echo comes back byte for byte; they must never be closed.
 * The silent ones send one message at a random moment and then fall silent;
 * they must be closed, not before the timeout and not much after it. judge.h
 * explains what is early and late, as seen from here. With --churn the chatty
 * ones sooner or later end their chat in one of several ways, and a new
 * connection takes the place of each that is gone.
 *
 * With --stall the server is made deaf for some seconds, in which the chatty
 * ones speak on; with --flood it is full, see flood.h.
 *
 * One timer paces all connections: every 10 ms it looks at each of them. One
 * more connection, the probe, sends a message each time, and so measures how
 * long the server's loop lagged. Before each verdict it connects anew: if that
 * is refused the server is gone, and is not judged. The load uses nothing of
 * uvwheel: a judge must not depend on what it judges.
 */

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "../examples/common/cli.h"
#include "connection.h"

#define SPARE_DESCRIPTORS 16 /* for all that is not one of the connections */

const char *const program = "idle-load";

/* ---- Progress ---------------------------------------------------------- */

static double
share_done(const load_t *load, uint64_t now_ns)
{
  if (load->running_ns == 0)
    return (double)load->started / (double)load->total;
  /* The last silent connection speaks after half a timeout. */
  uint64_t silence_ns = load->options.timeout_ms * NS_PER_MS * 3 / 2 +
                        load->options.tick_ms * NS_PER_MS;
  uint64_t chat_ns = load->options.duration_s * NS_PER_S;
  uint64_t all_ns = silence_ns > chat_ns ? silence_ns : chat_ns;
  return (double)(now_ns - load->running_ns) / (double)all_ns;
}

static void
show_progress(load_t *load, uint64_t now_ns)
{
  /* With --churn the verdicts show progress enough. */
  if (load->options.churn_s != 0 || !progress_is_due(&load->progress, now_ns))
    return;
  progress_show(&load->progress,
                load->running_ns == 0 ? "connecting" : "running",
                share_done(load, now_ns),
                "%" PRIu64 " open, %" PRIu64 " echoes, %" PRIu64 " closed",
                load->open, load->judge.echoes, load->judge.closed);
}

/* ---- Pace -------------------------------------------------------------- */

/* Has the server taken a connection since then? Until it has, the probe keeps
 * trying. */
static int
is_present(load_t *load, uint64_t since_ns)
{
  connection_t *probe = &load->connections[PROBE];

  if (load->present_ns >= since_ns)
    return 1;
  if (probe->state == OPEN)
    close_connection(probe);
  return 0;
}

static uint64_t
period_end_ns(const load_t *load)
{
  return load->judged_ns + load->options.churn_s * NS_PER_S;
}

/* With --churn judges each period for itself. */
static void
judge_period(load_t *load, uint64_t now_ns)
{
  uint64_t end_ns = period_end_ns(load);

  if (load->options.churn_s == 0 || load->running_ns == 0 || now_ns < end_ns ||
      !is_present(load, end_ns))
    return;
  load->judged_ns = now_ns;
  if (judge_report(&load->judge, stdout) != 0) {
    load->failed = 1;
    close_everything(load);
  }
  fflush(stdout);
  judge_begin_anew(&load->judge);
}

static uint64_t
patience_ns(const load_t *load)
{
  return load->options.patience_ms * NS_PER_MS;
}

/* Is this a silent connection that the server has forgotten? */
static int
is_overdue(const load_t *load, const connection_t *connection, uint64_t now_ns)
{
  const judge_t *judge = &load->judge;

  return connection->role == REGULAR && !connection->chatty &&
         judge->timeout_ns != 0 && connection->send_at_ns == NEVER &&
         now_ns - connection->heard_ns >
             judge->timeout_ns + judge_allowed_ns(judge) + patience_ns(load);
}

static void
pace_open(load_t *load, connection_t *connection, uint64_t now_ns)
{
  if (load->draining_ns != 0 && !is_probe(load, connection)) {
    int waiting = connection->length != 0 && connection->role == REGULAR;
    if (waiting && now_ns - load->draining_ns < patience_ns(load))
      return;
    load->judge.lost += (uint64_t)waiting;
    close_connection(connection);
  } else if (is_overdue(load, connection, now_ns)) {
    load->judge.missing++;
    close_connection(connection);
  } else if (connection->send_at_ns <= now_ns ||
             (connection->send_at_ns == TOGETHER && load->running_ns != 0)) {
    take_turn(load, connection, now_ns);
  }
}

/* In this time all flooders connect, and after it each connects again: so
 * slowly that a server that closes the idlest never gets to the chatty ones. */
static uint64_t
flood_ns(const load_t *load)
{
  return 4 * load->options.interval_ms * NS_PER_MS;
}

/* Is it time for a flooder, or for a newcomer, which comes once? */
static int
is_guest_due(const load_t *load, const connection_t *guest, uint64_t now_ns)
{
  uint64_t number = (uint64_t)(guest - load->connections) - load->total;
  uint64_t ran_ns = now_ns - load->running_ns;
  uint64_t flood = load->options.flood;

  if (load->running_ns == 0 || load->draining_ns != 0)
    return 0;
  if (number >= flood)
    return guest->heard_ns == 0 && ran_ns >= flood_ns(load) &&
           flood_is_due(&load->flood, number - flood, ran_ns - flood_ns(load));
  if (load->connecting >= CONNECTING_AT_ONCE)
    return 0;
  if (guest->heard_ns == 0)
    return ran_ns >= flood_ns(load) / flood * number;
  return now_ns - guest->heard_ns >= flood_ns(load);
}

/* Does a new connection take the place of this one, which is gone? A period
 * that is over sees no more of them, see most_closes. */
static int
is_replaced(const load_t *load, const connection_t *connection, uint64_t now_ns)
{
  if (connection >= load->connections + load->total)
    return is_guest_due(load, connection, now_ns);
  return is_probe(load, connection) ||
         (is_churning(load, now_ns) && now_ns < period_end_ns(load) &&
          load->connecting < CONNECTING_AT_ONCE);
}

static void
pace_connections(load_t *load, uint64_t now_ns)
{
  for (uint64_t i = 0; i < load->room && !load->failed; i++) {
    connection_t *connection = &load->connections[i];
    if (connection->state == OPEN)
      pace_open(load, connection, now_ns);
    else if (connection->state == CONNECTING &&
             now_ns - connection->heard_ns > patience_ns(load))
      give_up(load, "cannot connect", "no answer");
    else if (connection->state == UNUSED &&
             is_replaced(load, connection, now_ns))
      connect_one(load, i);
  }
}

/* The probe does not count: if the server closes it time and again, it may be
 * connecting whenever one looks. */
static int
is_connected(const load_t *load)
{
  return load->started == load->total &&
         load->connecting == (load->connections[PROBE].state == CONNECTING);
}

static int
is_probe_alone(const load_t *load)
{
  return is_connected(load) &&
         load->open == (load->connections[PROBE].state == OPEN);
}

/* First all connect, then they run for the duration and until the server has
 * closed the silent ones, then the last echoes are awaited, and last a sign
 * that the server is still there. */
static void
change_phase(load_t *load, uint64_t now_ns)
{
  uint64_t duration_ns = load->options.duration_s * NS_PER_S;

  /* The last newcomer has a second. */
  if (load->flood.newcomers != 0)
    duration_ns += flood_ns(load) + NS_PER_S;
  if (load->running_ns == 0) {
    if (is_connected(load)) {
      load->running_ns = load->judged_ns = now_ns;
      load->progress.shown_ns = 0; /* show the new phase at once */
    }
  } else if (load->draining_ns == 0) {
    if (now_ns - load->running_ns >= duration_ns &&
        (load->silent == 0 || load->options.timeout_ms == 0))
      load->draining_ns = now_ns;
  } else if (load->drained_ns == 0) {
    if (is_probe_alone(load))
      load->drained_ns = now_ns;
  } else if (is_present(load, load->drained_ns)) {
    close_everything(load);
  }
}

static void
on_pace(uv_timer_t *timer)
{
  load_t *load = timer->data;
  uint64_t now_ns = judge_awake(&load->judge);

  pace_connections(load, now_ns);
  if (!load->failed)
    judge_period(load, now_ns);
  if (load->failed)
    return;
  show_progress(load, now_ns);
  change_phase(load, now_ns);
  if (load->running_ns != 0 && load->draining_ns == 0 &&
      stall_pace(&load->stall, load->running_ns, now_ns) != 0)
    give_up(load, "cannot signal the server", "no verdict");
}

static void
on_signal(uv_signal_t *signal, int number)
{
  (void)number;
  give_up(signal->data, "interrupted", "no verdict");
}

/* ---- Start ------------------------------------------------------------- */

static void
check_descriptors(const options_t *options)
{
  uint64_t limit = raise_descriptor_limit();
  uint64_t possible = limit > SPARE_DESCRIPTORS ? limit - SPARE_DESCRIPTORS : 0;

  uint64_t count = options->count + options->flood + options->newcomers;

  if (count <= possible)
    return;
  complain("%" PRIu64 " connections need %" PRIu64
           " descriptors, but the limit is %" PRIu64
           " (ulimit -n): at most %" PRIu64 " connections are possible",
           count, count + SPARE_DESCRIPTORS, limit, possible);
  exit(EXIT_FAILURE);
}

static void
start(load_t *load)
{
  open_loop(&load->loop, &load->signals, on_signal, load);
  uv_timer_init(&load->loop, &load->pace);
  load->pace.data = load;
  load->random = load->options.seed;
  progress_begin(&load->progress, judge_awake(&load->judge));
  uv_timer_start(&load->pace, on_pace, PACE_MS, PACE_MS);
  connect_more(load);
}

static void
print_connections(const options_t *options)
{
  uint64_t chatty = options->count * options->chatty_percent / 100;

  printf("connections   %" PRIu64 ": %" PRIu64 " chatty, %" PRIu64
         " silent (seed %" PRIu64 ")\n",
         options->count, chatty, options->count - chatty, options->seed);
}

/* How many idle connections a server can close, with --churn in one period:
 * between two closes in one place lies a timeout. One more may come after the
 * period's end, before it is judged. */
static uint64_t
most_closes(const options_t *options)
{
  uint64_t closes = 1;

  if (options->churn_s != 0)
    closes = options->churn_s * 1000 / options->timeout_ms + 3;
  return options->count * closes;
}

static int
run(load_t *load)
{
  const options_t *options = &load->options;

  load->total = options->count + 1;
  load->room = load->total + options->flood + options->newcomers;
  load->connections = calloc(load->room, sizeof(*load->connections));
  if (load->connections == NULL ||
      flood_init(&load->flood, options->newcomers,
                 options->duration_s * NS_PER_S) != 0 ||
      judge_init(&load->judge, most_closes(options), options->timeout_ms,
                 options->tick_ms) != 0) {
    complain("out of memory");
    return EXIT_FAILURE;
  }
  stall_init(&load->stall, &load->judge, options);
  start(load);
  uv_run(&load->loop, UV_RUN_DEFAULT);
  uv_loop_close(&load->loop);
  progress_end(&load->progress);
  if (!load->failed) {
    print_connections(options);
    load->failed = judge_report(&load->judge, stdout) +
                       flood_report(&load->flood, stdout) !=
                   0;
  }
  flood_destroy(&load->flood);
  judge_destroy(&load->judge);
  free(load->connections);
  return load->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
  static load_t load;

  parse_options(argc, argv, IDLE_LOAD, &load.options);
  parse_address(load.options.host, load.options.port, &load.server);
  signal(SIGPIPE, SIG_IGN); /* a server that is gone is an error, not the end */
  check_descriptors(&load.options);
  return run(&load);
}
