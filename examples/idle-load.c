/* SPDX-License-Identifier: MIT */

/* A load for idle-server, and a judge of it from outside.
 *
 * Opens many connections. The chatty ones send a message at random intervals
 * and check that its echo comes back byte for byte; they must never be closed.
 * The silent ones send one message at a random moment and then fall silent;
 * they must be closed, not before the timeout and not much after it. What is
 * early and late, as seen from here, load-judge.h explains. With --churn the
 * chatty ones sooner or later end their chat in one of several ways, and a new
 * connection takes the place of each that is gone.
 *
 * One timer paces all connections: every 10 ms it looks at each of them. One
 * more connection, the probe, sends a message each time, and so measures how
 * long the server's loop lagged. Nothing of uvwheel is used: who judges must
 * not depend on whom he judges.
 */

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>
#include <uv.h>

#include "cli.h"
#include "load-judge.h"
#include "load-options.h"

#define PACE_MS 10
#define CONNECTING_AT_ONCE 256 /* less than any server's backlog */
#define PATIENCE_NS (5000 * NS_PER_MS)
#define SPARE_DESCRIPTORS 16 /* for all that is not one of the connections */
#define MESSAGE_MAX 64
#define NEVER UINT64_MAX
#define PROBE 0 /* its index among the connections */
#define CHAT 8  /* messages, on average, before a chat ends */

/* One address has 28,000 ports for connections to one server, and once half of
 * them are in use Linux searches long for a free one. */
#define CONNECTIONS_PER_SOURCE 10000

const char *const program = "idle-load";

typedef struct load_s load_t;

typedef enum { UNUSED, CONNECTING, OPEN, CLOSING } state_t;

typedef struct connection_s {
  uv_tcp_t tcp; /* its data points to the load */
  uv_connect_t connect;
  state_t state;
  int chatty;
  int vanished;        /* reads nothing until send_at_ns */
  uint64_t heard_ns;   /* see load-judge.h */
  uint64_t sent_ns;    /* before the last message was sent */
  uint64_t send_at_ns; /* when the next is to be sent, or NEVER */
  size_t length;       /* of the message whose echo is awaited, or 0 */
  size_t echoed;
  char message[MESSAGE_MAX];
} connection_t;

struct load_s {
  options_t options;
  uv_loop_t loop;
  uv_timer_t pace;
  uv_signal_t interrupt;
  uv_signal_t terminate;
  struct sockaddr_storage server;
  judge_t judge;
  uint64_t random;
  connection_t *connections;

  uint64_t total;   /* connections, the probe included */
  uint64_t started; /* connections begun               */
  uint64_t connecting;
  uint64_t open;
  uint64_t silent;      /* open ones that are to be closed by the server */
  uint64_t paced_ns;    /* when the pace timer ran last        */
  uint64_t running_ns;  /* since when all are connected, or 0  */
  uint64_t draining_ns; /* since when nothing more is sent, or 0 */
  uint64_t judged_ns;   /* with --churn: when that was last    */
  uint64_t shown_ns;    /* when progress was shown last        */
  int on_terminal;
  int failed;

  char read_buffer[65536]; /* checked before the next read */
};

/* splitmix64: any seed will do, also 0. */
static uint64_t
random_below(load_t *load, uint64_t limit)
{
  uint64_t z = load->random += UINT64_C(0x9e3779b97f4a7c15);

  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (z ^ (z >> 31)) % limit;
}

/* ---- The end ----------------------------------------------------------- */

static void
on_closed(uv_handle_t *tcp)
{
  ((connection_t *)tcp)->state = UNUSED;
}

static void
leave(connection_t *connection)
{
  load_t *load = connection->tcp.data;

  if (connection->state == OPEN) {
    load->open--;
    load->silent -= !connection->chatty;
  }
  connection->state = CLOSING;
}

static void
close_connection(connection_t *connection)
{
  leave(connection);
  uv_close((uv_handle_t *)&connection->tcp, on_closed);
}

/* The server gets an RST instead of a FIN. */
static void
reset_connection(connection_t *connection)
{
  leave(connection);
  if (uv_tcp_close_reset(&connection->tcp, on_closed) != 0)
    uv_close((uv_handle_t *)&connection->tcp, on_closed);
}

static void
close_everything(load_t *load)
{
  for (uint64_t i = 0; i < load->started; i++) {
    connection_t *connection = &load->connections[i];
    if (connection->state == CONNECTING || connection->state == OPEN)
      close_connection(connection);
  }
  uv_close((uv_handle_t *)&load->pace, NULL);
  uv_close((uv_handle_t *)&load->interrupt, NULL);
  uv_close((uv_handle_t *)&load->terminate, NULL);
}

/* Ends without a verdict. */
static void
give_up(load_t *load, const char *what, const char *why)
{
  if (load->failed)
    return;
  load->failed = 1;
  complain("%s: %s", what, why);
  close_everything(load);
}

static void
on_signal(uv_signal_t *signal, int number)
{
  (void)number;
  give_up(signal->data, "interrupted", "no verdict");
}

/* ---- Messages ---------------------------------------------------------- */

static void
plan_next_message(load_t *load, connection_t *connection, uint64_t now_ns)
{
  uint64_t interval_ns = load->options.interval_ms * NS_PER_MS;

  connection->send_at_ns = NEVER;
  if (connection == &load->connections[PROBE])
    connection->send_at_ns = now_ns;
  else if (connection->chatty)
    connection->send_at_ns =
        now_ns + interval_ns / 2 + random_below(load, interval_ns);
}

static void
send_message(load_t *load, connection_t *connection)
{
  connection->send_at_ns = NEVER;
  connection->length = 1 + random_below(load, MESSAGE_MAX);
  connection->echoed = 0;
  for (size_t i = 0; i < connection->length; i++)
    connection->message[i] = (char)random_below(load, 256);
  uv_buf_t buffer =
      uv_buf_init(connection->message, (unsigned)connection->length);
  connection->sent_ns = uv_hrtime();
  if (uv_try_write((uv_stream_t *)&connection->tcp, &buffer, 1) ==
      (int)connection->length)
    load->judge.messages++;
  else
    connection->length = 0; /* it is closed, as on_read will see */
}

static void
check_echo(load_t *load, connection_t *connection, const char *bytes,
           size_t length)
{
  if (length > connection->length - connection->echoed ||
      memcmp(connection->message + connection->echoed, bytes, length) != 0) {
    load->judge.garbled++;
    close_connection(connection);
    return;
  }
  connection->echoed += length;
  if (connection->echoed < connection->length)
    return;
  uint64_t now_ns = uv_hrtime();
  judge_echo(&load->judge, now_ns - connection->sent_ns);
  connection->heard_ns = connection->sent_ns;
  connection->length = 0;
  connection->echoed = 0;
  plan_next_message(load, connection, now_ns);
}

static void
on_read_wanted(uv_handle_t *tcp, size_t suggested, uv_buf_t *buffer)
{
  load_t *load = tcp->data;

  (void)suggested;
  *buffer = uv_buf_init(load->read_buffer, sizeof(load->read_buffer));
}

static void
on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *chunk)
{
  connection_t *connection = (connection_t *)stream;
  load_t *load = stream->data;

  if (length > 0 && !connection->vanished)
    check_echo(load, connection, chunk->base, (size_t)length);
  if (length >= 0)
    return;
  if (!connection->vanished)
    judge_closed(&load->judge, &(closed_t){
                                   .chatty = connection->chatty,
                                   .waiting = connection->length != 0,
                                   .heard_ns = connection->heard_ns,
                                   .closed_ns = uv_hrtime(),
                               });
  close_connection(connection);
}

/* ---- Connect ----------------------------------------------------------- */

static void connect_more(load_t *load);

static void
cannot_connect(load_t *load, int error)
{
  char text[ADDRESS_TEXT_SIZE];

  format_address(&load->server, text);
  give_up(load, text, uv_strerror(error));
}

static void
on_connect(uv_connect_t *request, int status)
{
  connection_t *connection = (connection_t *)request->handle;
  load_t *load = connection->tcp.data;

  if (status == UV_ECANCELED)
    return; /* everything is closing */
  if (status == 0)
    status = uv_read_start(request->handle, on_read_wanted, on_read);
  if (status != 0) {
    cannot_connect(load, status);
    return;
  }
  uint64_t timeout_ns = load->options.timeout_ms * NS_PER_MS;
  uint64_t first_ns = connection->chatty || timeout_ns == 0
                          ? load->options.interval_ms * NS_PER_MS
                          : timeout_ns / 2;
  connection->state = OPEN;
  connection->send_at_ns = uv_hrtime() + random_below(load, first_ns);
  load->connecting--;
  load->open++;
  load->silent += !connection->chatty;
  connect_more(load);
}

/* On this machine's own network 127.0.0.0/8 there are as many addresses to
 * connect from as one likes. */
static int
choose_source(const load_t *load, connection_t *connection, uint64_t index)
{
  const struct sockaddr_in *server = (const struct sockaddr_in *)&load->server;
  uint32_t number = (uint32_t)(index / CONNECTIONS_PER_SOURCE);
  struct sockaddr_in source = {.sin_family = AF_INET};

  if (number == 0 || server->sin_family != AF_INET ||
      ntohl(server->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET)
    return 0;
  source.sin_addr.s_addr = htonl(INADDR_LOOPBACK + number);
  return uv_tcp_bind(&connection->tcp, (struct sockaddr *)&source, 0);
}

static void
connect_one(load_t *load, uint64_t index)
{
  connection_t *connection = &load->connections[index];
  uint64_t percent = load->options.chatty_percent;

  *connection = (connection_t){.state = CONNECTING};
  uv_tcp_init(&load->loop, &connection->tcp);
  connection->tcp.data = load;
  connection->chatty =
      index == PROBE || (index - 1) * percent / 100 != index * percent / 100;
  load->connecting++;
  int error = choose_source(load, connection, index);
  connection->heard_ns = uv_hrtime();
  if (error == 0)
    error = uv_tcp_connect(&connection->connect, &connection->tcp,
                           (struct sockaddr *)&load->server, on_connect);
  if (error != 0)
    cannot_connect(load, error);
}

static void
connect_more(load_t *load)
{
  while (!load->failed && load->started < load->total &&
         load->connecting < CONNECTING_AT_ONCE)
    connect_one(load, load->started++);
}

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
  double share = (double)(now_ns - load->running_ns) / (double)all_ns;
  return share < 1 ? share : 1;
}

static void
show_progress(load_t *load, uint64_t now_ns)
{
  static const char full[] = "####################";
  const char *phase = load->running_ns == 0 ? "connecting" : "running";
  uint64_t period_ns = (load->on_terminal ? 200 : 2000) * NS_PER_MS;

  /* With --churn the verdicts show progress enough. */
  if (now_ns - load->shown_ns < period_ns || load->options.churn_s != 0)
    return;
  load->shown_ns = now_ns;
  double share = share_done(load, now_ns);
  if (load->on_terminal)
    fprintf(stderr, "\r%-10s [%-20.*s]", phase, (int)(share * 20), full);
  else
    fprintf(stderr, "%s:", phase);
  fprintf(stderr,
          " %3.0f %%, %" PRIu64 " open, %" PRIu64 " echoes, %" PRIu64
          " closed%s",
          share * 100, load->open, load->judge.echoes, load->judge.closed,
          load->on_terminal ? " " : "\n");
}

static void
end_progress(const load_t *load)
{
  if (load->on_terminal)
    fprintf(stderr, "\r%79s\r", "");
}

/* ---- Churn ------------------------------------------------------------- */

static int
is_churning(const load_t *load, uint64_t now_ns)
{
  return load->options.churn_s != 0 && load->running_ns != 0 &&
         now_ns - load->running_ns < load->options.duration_s * NS_PER_S;
}

/* From now on the server hears nothing of it. */
static void
fall_silent(load_t *load, connection_t *connection)
{
  connection->chatty = 0;
  load->silent++;
  connection->send_at_ns = NEVER;
}

/* As far as the server can see: a machine that lost its network. It comes back
 * after two timeouts, only to find that it was cut off. */
static void
vanish(load_t *load, connection_t *connection, uint64_t now_ns)
{
  fall_silent(load, connection);
  uv_read_stop((uv_stream_t *)&connection->tcp);
  connection->vanished = 1;
  connection->send_at_ns = now_ns + 2 * load->judge.timeout_ns;
}

static void
come_back(connection_t *connection, uint64_t now_ns)
{
  connection->heard_ns = now_ns;
  connection->send_at_ns = NEVER;
  uv_read_start((uv_stream_t *)&connection->tcp, on_read_wanted, on_read);
}

/* Nobody waits for the last message's echo. */
static void
end_chat(load_t *load, connection_t *connection, uint64_t now_ns)
{
  uint64_t end = random_below(load, 4);
  uv_buf_t goodbye = uv_buf_init(connection->message, MESSAGE_MAX);

  if (end != 0)
    uv_try_write((uv_stream_t *)&connection->tcp, &goodbye, 1);
  if (end == 0)
    fall_silent(load, connection);
  else if (end == 1)
    close_connection(connection);
  else if (end == 2)
    reset_connection(connection);
  else
    vanish(load, connection, now_ns);
}

/* Judges each period for itself. */
static void
judge_period(load_t *load, uint64_t now_ns)
{
  uint64_t period_ns = load->options.churn_s * NS_PER_S;

  if (period_ns == 0 || load->running_ns == 0 ||
      now_ns - load->judged_ns < period_ns)
    return;
  load->judged_ns = now_ns;
  if (judge_report(&load->judge, stdout) != 0) {
    load->failed = 1;
    close_everything(load);
  }
  fflush(stdout);
  judge_begin_anew(&load->judge);
}

/* ---- Pace -------------------------------------------------------------- */

/* Is this a silent connection that the server has forgotten? */
static int
is_overdue(const load_t *load, const connection_t *connection, uint64_t now_ns)
{
  const judge_t *judge = &load->judge;

  return !connection->chatty && judge->timeout_ns != 0 &&
         connection->send_at_ns == NEVER &&
         now_ns - connection->heard_ns >
             judge->timeout_ns + judge_allowed_ns(judge) + PATIENCE_NS;
}

static void
take_turn(load_t *load, connection_t *connection, uint64_t now_ns)
{
  if (connection->vanished)
    come_back(connection, now_ns);
  else if (connection->chatty && is_churning(load, now_ns) &&
           connection != &load->connections[PROBE] &&
           random_below(load, CHAT) == 0)
    end_chat(load, connection, now_ns);
  else
    send_message(load, connection);
}

static void
pace_open(load_t *load, connection_t *connection, uint64_t now_ns)
{
  if (load->draining_ns != 0) {
    int waiting = connection->length != 0;
    if (waiting && now_ns - load->draining_ns < PATIENCE_NS)
      return;
    load->judge.lost += (uint64_t)waiting;
    close_connection(connection);
  } else if (is_overdue(load, connection, now_ns)) {
    load->judge.missing++;
    close_connection(connection);
  } else if (connection->send_at_ns <= now_ns) {
    take_turn(load, connection, now_ns);
  }
}

static void
pace_connections(load_t *load, uint64_t now_ns)
{
  for (uint64_t i = 0; i < load->started && !load->failed; i++) {
    connection_t *connection = &load->connections[i];
    if (connection->state == OPEN)
      pace_open(load, connection, now_ns);
    else if (connection->state == CONNECTING &&
             now_ns - connection->heard_ns > PATIENCE_NS)
      give_up(load, "cannot connect", "no answer");
    else if (connection->state == UNUSED && is_churning(load, now_ns) &&
             load->connecting < CONNECTING_AT_ONCE)
      connect_one(load, i);
  }
}

/* First all connect, then they run for the duration and until the server has
 * closed the silent ones, then the last echoes are awaited. */
static void
change_phase(load_t *load, uint64_t now_ns)
{
  uint64_t duration_ns = load->options.duration_s * NS_PER_S;

  if (load->running_ns == 0) {
    if (load->started == load->total && load->connecting == 0) {
      load->running_ns = load->judged_ns = now_ns;
      load->shown_ns = 0; /* show the new phase at once */
    }
  } else if (load->open == 0) {
    close_everything(load);
  } else if (load->draining_ns == 0 &&
             now_ns - load->running_ns >= duration_ns &&
             (load->silent == 0 || load->options.timeout_ms == 0)) {
    load->draining_ns = now_ns;
  }
}

static void
on_pace(uv_timer_t *timer)
{
  load_t *load = timer->data;
  uint64_t now_ns = uv_hrtime();
  uint64_t gap_ns = now_ns - load->paced_ns;

  load->paced_ns = now_ns;
  if (gap_ns > PACE_MS * NS_PER_MS)
    judge_delay(&load->judge, gap_ns - PACE_MS * NS_PER_MS);
  pace_connections(load, now_ns);
  if (!load->failed)
    judge_period(load, now_ns);
  if (load->failed)
    return;
  show_progress(load, now_ns);
  change_phase(load, now_ns);
}

/* ---- Start ------------------------------------------------------------- */

static void
check_descriptors(const options_t *options)
{
  uint64_t limit = raise_descriptor_limit();
  uint64_t possible = limit > SPARE_DESCRIPTORS ? limit - SPARE_DESCRIPTORS : 0;

  if (options->connections <= possible)
    return;
  complain("%" PRIu64 " connections need %" PRIu64
           " descriptors, but the limit is %" PRIu64
           " (ulimit -n): at most %" PRIu64 " connections are possible",
           options->connections, options->connections + SPARE_DESCRIPTORS,
           limit, possible);
  exit(EXIT_FAILURE);
}

static void
start(load_t *load)
{
  uv_loop_init(&load->loop);
  uv_timer_init(&load->loop, &load->pace);
  uv_signal_init(&load->loop, &load->interrupt);
  uv_signal_init(&load->loop, &load->terminate);
  load->pace.data = load;
  load->interrupt.data = load;
  load->terminate.data = load;
  uv_signal_start(&load->interrupt, on_signal, SIGINT);
  uv_signal_start(&load->terminate, on_signal, SIGTERM);
  load->random = load->options.seed;
  load->on_terminal = isatty(STDERR_FILENO);
  load->paced_ns = load->shown_ns = uv_hrtime();
  uv_timer_start(&load->pace, on_pace, PACE_MS, PACE_MS);
  connect_more(load);
}

static void
print_connections(const options_t *options)
{
  uint64_t chatty = options->connections * options->chatty_percent / 100;

  printf("connections   %" PRIu64 ": %" PRIu64 " chatty, %" PRIu64
         " silent (seed %" PRIu64 ")\n",
         options->connections, chatty, options->connections - chatty,
         options->seed);
}

/* How many idle connections a server can close, with --churn in one period:
 * between two closes in one place lies a timeout. */
static uint64_t
most_closes(const options_t *options)
{
  uint64_t closes = 1;

  if (options->churn_s != 0)
    closes = options->churn_s * 1000 / options->timeout_ms + 2;
  return options->connections * closes;
}

static int
run(load_t *load)
{
  const options_t *options = &load->options;

  load->total = options->connections + 1;
  load->connections = calloc(load->total, sizeof(*load->connections));
  if (load->connections == NULL ||
      judge_init(&load->judge, most_closes(options), options->timeout_ms,
                 options->tick_ms) != 0) {
    complain("out of memory");
    return EXIT_FAILURE;
  }
  start(load);
  uv_run(&load->loop, UV_RUN_DEFAULT);
  uv_loop_close(&load->loop);
  end_progress(load);
  if (!load->failed) {
    print_connections(options);
    load->failed = judge_report(&load->judge, stdout) != 0;
  }
  judge_destroy(&load->judge);
  free(load->connections);
  return load->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
  static load_t load;

  parse_options(&load.options, argc, argv);
  parse_address(load.options.host, load.options.port, &load.server);
  signal(SIGPIPE, SIG_IGN); /* a server that is gone is an error, not the end */
  check_descriptors(&load.options);
  return run(&load);
}
