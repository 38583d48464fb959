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
 * With --stall the server is blocked for some seconds, in which the chatty
 * ones speak on.
 *
 * One timer paces all connections: every 10 ms it looks at each of them. One
 * more connection, the probe, sends a message each time, and so measures how
 * long the server's loop lagged. Before the verdict it connects anew: if that
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

#include "../../examples/common/cli.h"
#include "connection.h"

#define SPARE_DESCRIPTORS 16 /* for all that is not one of the connections */

const char *const program = "idle-load";

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
patience_ns(const load_t *load)
{
  return load->options.patience_ms * NS_PER_MS;
}

/* Is this a silent connection that the server has forgotten? */
static int
is_overdue(const load_t *load, const connection_t *connection, uint64_t now_ns)
{
  const judge_t *judge = &load->judge;

  return !connection->chatty && judge->timeout_ns != 0 &&
         connection->send_at_ns == NEVER &&
         now_ns - connection->heard_ns >
             judge->timeout_ns + judge_allowed_ns(judge) + patience_ns(load);
}

static void
pace_open(load_t *load, connection_t *connection, uint64_t now_ns)
{
  if (load->draining_ns != 0 && !is_probe(load, connection)) {
    int waiting = connection->length != 0;
    if (waiting && now_ns - load->draining_ns < patience_ns(load))
      return;
    load->judge.lost += (uint64_t)waiting;
    close_connection(connection);
  } else if (is_overdue(load, connection, now_ns)) {
    load->judge.missing++;
    close_connection(connection);
  } else if (connection->send_at_ns <= now_ns ||
             (connection->send_at_ns == TOGETHER && load->running_ns != 0)) {
    speak(load, connection, now_ns);
  }
}

/* Does a new connection take the place of this one, which is gone? */
static int
is_replaced(load_t *load, const connection_t *connection, uint64_t now_ns)
{
  return is_probe(load, connection) ||
         (is_churning(load, now_ns) && load->connecting < CONNECTING_AT_ONCE);
}

static void
pace_connections(load_t *load, uint64_t now_ns)
{
  for (uint64_t i = 0; i < load->total && !load->failed; i++) {
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

static void
show_running(const load_t *load)
{
  fprintf(stderr, "running: %" PRIu64 " connections, %" PRIu64 " silent\n",
          load->total - 1, load->silent);
}

/* First all connect, then they run for the duration and until the server has
 * closed the silent ones, then the last echoes are awaited, and last a sign
 * that the server is still there. */
static void
change_phase(load_t *load, uint64_t now_ns)
{
  uint64_t duration_ns = load->options.duration_s * NS_PER_S;

  if (load->running_ns == 0) {
    if (is_connected(load)) {
      load->running_ns = now_ns;
      show_running(load);
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
  if (load->failed)
    return;
  change_phase(load, now_ns);
  if (load->running_ns != 0 && load->draining_ns == 0 &&
      judge_stall(&load->judge, load->running_ns, now_ns) != 0)
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
start(load_t *load)
{
  open_loop(&load->loop, &load->signals, on_signal, load);
  uv_timer_init(&load->loop, &load->pace);
  load->pace.data = load;
  memcpy(load->random, &load->options.seed, sizeof(load->random));
  judge_awake(&load->judge);
  uv_timer_start(&load->pace, on_pace, PACE_MS, PACE_MS);
  connect_more(load);
}

static int
run(load_t *load)
{
  const options_t *options = &load->options;

  load->total = options->count + 1;
  need_descriptors(load->total + SPARE_DESCRIPTORS);
  load->connections = calloc(load->total, sizeof(*load->connections));
  if (load->connections == NULL) {
    complain("out of memory");
    return EXIT_FAILURE;
  }
  judge_init(&load->judge, options);
  start(load);
  run_to_end(&load->loop);
  if (!load->failed)
    load->failed = judge_report(&load->judge) != 0;
  free(load->connections);
  return load->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
  static load_t load;

  parse_options(argc, argv, IDLE_LOAD, &load.options);
  uv_ip4_addr(DEFAULT_HOST, load.options.port, &load.server);
  signal(SIGPIPE, SIG_IGN); /* a server that is gone is an error, not the end */
  return run(&load);
}
