/* SPDX-License-Identifier: MIT */

/* A load for idle-server, and a judge of it from outside.
 *
 * Opens many connections. The chatty ones send a message at random intervals
 * and check that its echo comes back byte for byte; they must never be closed.
 * The silent ones send one message at a random moment and then fall silent;
 * they must be closed, not before the timeout and not much after it. judge.h
 * explains what is early and late, as seen from here.
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
#include <stdio.h>
#include <stdlib.h>

#include <uv.h>

#include "../../examples/common/cli.h"
#include "judge.h"

#define CONNECTING_AT_ONCE 256 /* less than any server's backlog */
#define MESSAGE_MAX 64
#define NEVER UINT64_MAX
#define TOGETHER (UINT64_MAX - 1) /* when all are connected */
#define PROBE 0                   /* its index among the connections */

typedef enum { UNUSED, CONNECTING, OPEN, CLOSING } state_t;

typedef struct connection_s {
  uv_tcp_t tcp; /* its data points to the load */
  uv_connect_t connect;
  state_t state;
  int chatty;
  uint64_t heard_ns;   /* see judge.h */
  uint64_t sent_ns;    /* before the last message was sent */
  uint64_t send_at_ns; /* when the next is to be sent, or NEVER */
  size_t length;       /* of the message whose echo is awaited, or 0 */
  size_t echoed;
  size_t copies; /* so often it was said */
  char message[MESSAGE_MAX];
} connection_t;

typedef struct load_s {
  options_t options;
  uv_loop_t loop;
  uv_timer_t pace;
  end_signals_t signals;
  struct sockaddr_in server;
  judge_t judge;
  unsigned short random[3];
  connection_t *connections;

  uint64_t total;   /* connections, the probe included */
  uint64_t started; /* connections begun               */
  uint64_t connecting;
  uint64_t open;
  uint64_t silent;      /* open ones that are to be closed by the server */
  uint64_t running_ns;  /* since when all are connected, or 0  */
  uint64_t draining_ns; /* since when nothing more is sent, or 0 */
  uint64_t drained_ns;  /* since when the probe is alone, or 0 */
  uint64_t present_ns;  /* the server certainly was there after that */
  int failed;

  char read_buffer[65536]; /* checked before the next read */
} load_t;

/* One address has 28,000 ports for connections to one server, and once half of
 * them are in use Linux searches long for a free one. */
#define CONNECTIONS_PER_SOURCE 10000

#define SPARE_DESCRIPTORS 16 /* for all that is not one of the connections */

const char *const program = "idle-load";

/* From 0 to limit - 1. */
static uint64_t random_below(load_t *load, uint64_t limit) {
  return (uint64_t)(erand48(load->random) * (double)limit);
}

/* It is none of the connections that are judged. */
static int is_probe(const load_t *load, const connection_t *connection) {
  return connection == &load->connections[PROBE];
}

/* ---- The end ----------------------------------------------------------- */

static void on_closed(uv_handle_t *tcp) {
  ((connection_t *)tcp)->state = UNUSED;
}

static void close_connection(connection_t *connection) {
  load_t *load = connection->tcp.data;

  if (connection->state == OPEN) {
    load->open--;
    load->silent -= !connection->chatty;
  }
  connection->state = CLOSING;
  uv_close((uv_handle_t *)&connection->tcp, on_closed);
}

static void close_everything(load_t *load) {
  for (uint64_t i = 0; i < load->total; i++) {
    connection_t *connection = &load->connections[i];
    if (connection->state == CONNECTING || connection->state == OPEN)
      close_connection(connection);
  }
  judge_end_stall(&load->judge);
  uv_close((uv_handle_t *)&load->pace, NULL);
  close_end_signals(&load->signals);
}

/* Ends without a verdict. */
static void give_up(load_t *load, const char *what, const char *why) {
  if (load->failed)
    return;
  load->failed = 1;
  complain("%s: %s", what, why);
  close_everything(load);
}

/* ---- Messages ---------------------------------------------------------- */

static void plan_next_message(load_t *load, connection_t *connection,
                              uint64_t now_ns) {
  uint64_t interval_ns = load->options.interval_ms * NS_PER_MS;

  connection->send_at_ns = NEVER;
  if (is_probe(load, connection))
    connection->send_at_ns = now_ns;
  else if (connection->chatty)
    connection->send_at_ns =
        now_ns + interval_ns / 2 + random_below(load, interval_ns);
}

/* With --stall peers that get no answer speak on: they say the same again. */
static void send_message(load_t *load, connection_t *connection) {
  uint64_t now_ns = uv_hrtime();

  connection->send_at_ns = NEVER;
  if (load->options.stall_s != 0 && !is_probe(load, connection))
    plan_next_message(load, connection, now_ns);
  if (connection->length == 0) {
    connection->length = 1 + random_below(load, MESSAGE_MAX);
    connection->echoed = connection->copies = 0;
    connection->sent_ns = now_ns;
    for (size_t i = 0; i < connection->length; i++)
      connection->message[i] = (char)random_below(load, 256);
  }
  uv_buf_t buffer =
      uv_buf_init(connection->message, (unsigned)connection->length);
  if (uv_try_write((uv_stream_t *)&connection->tcp, &buffer, 1) ==
      (int)connection->length)
    connection->copies++;
  else if (connection->copies == 0)
    connection->length = 0; /* it is closed, as on_read will see */
}

/* Is this how the echo goes on? */
static int is_echo(const connection_t *connection, const char *bytes,
                   size_t length) {
  if (length > connection->length * connection->copies - connection->echoed)
    return 0;
  for (size_t i = 0; i < length; i++)
    if (bytes[i] !=
        connection->message[(connection->echoed + i) % connection->length])
      return 0;
  return 1;
}

static void check_echo(load_t *load, connection_t *connection,
                       const char *bytes, size_t length) {
  if (!is_echo(connection, bytes, length)) {
    load->judge.garbled++;
    close_connection(connection);
    return;
  }
  connection->echoed += length;
  if (connection->echoed < connection->length * connection->copies)
    return;
  uint64_t now_ns = uv_hrtime();
  judge_echo(&load->judge, connection->sent_ns, now_ns);
  connection->heard_ns = connection->sent_ns;
  connection->length = 0;
  connection->echoed = 0;
  plan_next_message(load, connection, now_ns);
}

static void on_read_wanted(uv_handle_t *tcp, size_t suggested,
                           uv_buf_t *buffer) {
  load_t *load = tcp->data;

  (void)suggested;
  *buffer = uv_buf_init(load->read_buffer, sizeof(load->read_buffer));
}

static void on_read(uv_stream_t *stream, ssize_t length,
                    const uv_buf_t *chunk) {
  connection_t *connection = (connection_t *)stream;
  load_t *load = stream->data;

  if (length > 0)
    check_echo(load, connection, chunk->base, (size_t)length);
  if (length >= 0)
    return;
  if (connection->length != 0)
    judge_answer(&load->judge, connection->sent_ns, uv_hrtime());
  if (!is_probe(load, connection))
    judge_closed(&load->judge, connection->chatty, connection->length != 0,
                 connection->heard_ns, uv_hrtime());
  close_connection(connection);
}

/* ---- Connect ----------------------------------------------------------- */

static void cannot_connect(load_t *load, int error) {
  if (load->running_ns != 0 &&
      (error == UV_ECONNREFUSED || error == UV_ECONNRESET))
    give_up(load, "the server is gone", "no verdict");
  else
    give_up(load, "cannot connect", uv_strerror(error));
}

/* A chatty one speaks soon: a full server sheds who does not. */
static void plan_first_message(load_t *load, connection_t *connection) {
  const options_t *options = &load->options;
  uint64_t spread_ms =
      options->timeout_ms == 0 ? options->interval_ms : options->timeout_ms / 2;

  if (connection->chatty)
    connection->send_at_ns = uv_hrtime() + options->first_ms * NS_PER_MS;
  else if (options->are_together)
    connection->send_at_ns = TOGETHER;
  else
    connection->send_at_ns =
        uv_hrtime() + random_below(load, spread_ms * NS_PER_MS);
}

static void connect_more(load_t *load);

static void on_connect(uv_connect_t *request, int status) {
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
  if (is_probe(load, connection))
    load->present_ns = connection->heard_ns;
  connection->state = OPEN;
  if (connection->chatty &&
      (is_probe(load, connection) || load->options.first_ms == 0))
    send_message(load, connection);
  else
    plan_first_message(load, connection);
  load->connecting--;
  load->open++;
  load->silent += !connection->chatty;
  connect_more(load);
}

/* All of 127.0.0.0/8 is this machine: there are as many addresses to connect
 * from as one likes. The port is better chosen when the connection's other end
 * is known, too: bind() takes none that was in use a minute ago. */
static int choose_source(connection_t *connection, uint64_t index) {
  uint32_t number = (uint32_t)(index / CONNECTIONS_PER_SOURCE);
  struct sockaddr_in source = {.sin_family = AF_INET};

  if (number == 0)
    return 0;
  source.sin_addr.s_addr = htonl(INADDR_LOOPBACK + number);
#ifdef IP_BIND_ADDRESS_NO_PORT
  uv_os_fd_t descriptor = -1;
  int on = 1;
  uv_fileno((uv_handle_t *)&connection->tcp, &descriptor);
  setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
#endif
  return uv_tcp_bind(&connection->tcp, (struct sockaddr *)&source, 0);
}

static void connect_one(load_t *load, uint64_t index) {
  connection_t *connection = &load->connections[index];
  uint64_t percent = load->options.chatty_percent;

  *connection = (connection_t){.state = UNUSED};
  int error = uv_tcp_init_ex(&load->loop, &connection->tcp, AF_INET);
  if (error != 0) {
    cannot_connect(load, error);
    return;
  }
  connection->state = CONNECTING;
  connection->tcp.data = load;
  connection->chatty =
      index == PROBE || (index - 1) * percent / 100 != index * percent / 100;
  load->connecting++;
  error = choose_source(connection, index);
  connection->heard_ns = uv_hrtime();
  if (error == 0)
    error = uv_tcp_connect(&connection->connect, &connection->tcp,
                           (struct sockaddr *)&load->server, on_connect);
  if (error != 0)
    cannot_connect(load, error);
}

/* As many as the server can take at once. Each that is accepted begins more. */
static void connect_more(load_t *load) {
  while (!load->failed && load->started < load->total &&
         load->connecting < CONNECTING_AT_ONCE)
    connect_one(load, load->started++);
}

/* ---- Pace -------------------------------------------------------------- */

/* Has the server taken a connection since then? Until it has, the probe keeps
 * trying. */
static int is_present(load_t *load, uint64_t since_ns) {
  connection_t *probe = &load->connections[PROBE];

  if (load->present_ns >= since_ns)
    return 1;
  if (probe->state == OPEN)
    close_connection(probe);
  return 0;
}

static uint64_t patience_ns(const load_t *load) {
  return load->options.patience_ms * NS_PER_MS;
}

/* Is this a silent connection that the server has forgotten? */
static int is_overdue(const load_t *load, const connection_t *connection,
                      uint64_t now_ns) {
  const judge_t *judge = &load->judge;

  return !connection->chatty && judge->timeout_ns != 0 &&
         connection->send_at_ns == NEVER &&
         now_ns - connection->heard_ns >
             judge->timeout_ns + judge_allowed_ns(judge) + patience_ns(load);
}

static void pace_open(load_t *load, connection_t *connection, uint64_t now_ns) {
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
    send_message(load, connection);
  }
}

/* Of those that are gone only the probe connects again. */
static void pace_connections(load_t *load, uint64_t now_ns) {
  for (uint64_t i = 0; i < load->total && !load->failed; i++) {
    connection_t *connection = &load->connections[i];
    if (connection->state == OPEN)
      pace_open(load, connection, now_ns);
    else if (connection->state == CONNECTING &&
             now_ns - connection->heard_ns > patience_ns(load))
      give_up(load, "cannot connect", "no answer");
    else if (connection->state == UNUSED && i == PROBE)
      connect_one(load, i);
  }
}

/* The probe does not count: if the server closes it time and again, it may be
 * connecting whenever one looks. */
static int is_connected(const load_t *load) {
  return load->started == load->total &&
         load->connecting == (load->connections[PROBE].state == CONNECTING);
}

static int is_probe_alone(const load_t *load) {
  return is_connected(load) &&
         load->open == (load->connections[PROBE].state == OPEN);
}

/* First all connect, then they run for the duration and until the server has
 * closed the silent ones, then the last echoes are awaited, and last a sign
 * that the server is still there. */
static void change_phase(load_t *load, uint64_t now_ns) {
  uint64_t duration_ns = load->options.duration_s * NS_PER_S;

  if (load->running_ns == 0) {
    if (is_connected(load)) {
      load->running_ns = now_ns;
      fprintf(stderr, "running: %" PRIu64 " connections, %" PRIu64 " silent\n",
              load->total - 1, load->silent);
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

static void on_pace(uv_timer_t *timer) {
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

static void on_signal(uv_signal_t *signal, int number) {
  (void)number;
  give_up(signal->data, "interrupted", "no verdict");
}

/* ---- Run ---------------------------------------------------------------- */

static int run(load_t *load) {
  const options_t *options = &load->options;

  load->total = options->count + 1;
  need_descriptors(load->total + SPARE_DESCRIPTORS);
  load->connections = calloc(load->total, sizeof(*load->connections));
  if (load->connections == NULL) {
    complain("out of memory");
    return EXIT_FAILURE;
  }
  judge_init(&load->judge, options);
  open_loop(&load->loop, &load->signals, on_signal, load);
  uv_timer_init(&load->loop, &load->pace);
  load->pace.data = load;
  judge_awake(&load->judge);
  uv_timer_start(&load->pace, on_pace, PACE_MS, PACE_MS);
  connect_more(load);
  run_to_end(&load->loop);
  if (!load->failed)
    load->failed = judge_report(&load->judge) != 0;
  free(load->connections);
  return load->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  static load_t load;

  parse_options(argc, argv, IDLE_LOAD, &load.options);
  uv_ip4_addr(DEFAULT_HOST, load.options.port, &load.server);
  signal(SIGPIPE, SIG_IGN); /* a server that is gone is an error, not the end */
  return run(&load);
}
