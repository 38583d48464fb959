/* SPDX-License-Identifier: MIT */

#include "connection.h"

#include <stdlib.h>

#define CHAT 8 /* messages, on average, before a chat ends */

/* One address has 28,000 ports for connections to one server, and once half of
 * them are in use Linux searches long for a free one. */
#define CONNECTIONS_PER_SOURCE 10000

/* From 0 to limit - 1. */
static uint64_t
random_below(load_t *load, uint64_t limit)
{
  return (uint64_t)(erand48(load->random) * (double)limit);
}

int
is_probe(const load_t *load, const connection_t *connection)
{
  return connection == &load->connections[PROBE];
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

void
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

void
close_everything(load_t *load)
{
  for (uint64_t i = 0; i < load->total; i++) {
    connection_t *connection = &load->connections[i];
    if (connection->state == CONNECTING || connection->state == OPEN)
      close_connection(connection);
  }
  judge_end_stall(&load->judge);
  uv_close((uv_handle_t *)&load->pace, NULL);
  close_end_signals(&load->signals);
}

void
give_up(load_t *load, const char *what, const char *why)
{
  if (load->failed)
    return;
  load->failed = 1;
  complain("%s: %s", what, why);
  close_everything(load);
}

/* ---- Messages ---------------------------------------------------------- */

static void
plan_next_message(load_t *load, connection_t *connection, uint64_t now_ns)
{
  uint64_t interval_ns = load->options.interval_ms * NS_PER_MS;

  connection->send_at_ns = NEVER;
  if (is_probe(load, connection))
    connection->send_at_ns = now_ns;
  else if (connection->chatty)
    connection->send_at_ns =
        now_ns + interval_ns / 2 + random_below(load, interval_ns);
}

static void
choose_message(load_t *load, connection_t *connection, uint64_t now_ns)
{
  connection->length = 1 + random_below(load, MESSAGE_MAX);
  connection->echoed = 0;
  connection->copies = 0;
  for (size_t i = 0; i < connection->length; i++)
    connection->message[i] = (char)random_below(load, 256);
  connection->sent_ns = now_ns;
}

/* With --stall peers speak on when there is no answer: they say the same
 * again. */
static void
send_message(load_t *load, connection_t *connection)
{
  uint64_t now_ns = uv_hrtime();

  connection->send_at_ns = NEVER;
  if (load->options.stall_s != 0 && !is_probe(load, connection))
    plan_next_message(load, connection, now_ns);
  if (connection->length == 0)
    choose_message(load, connection, now_ns);
  uv_buf_t buffer =
      uv_buf_init(connection->message, (unsigned)connection->length);
  if (uv_try_write((uv_stream_t *)&connection->tcp, &buffer, 1) ==
      (int)connection->length)
    connection->copies++;
  else if (connection->copies == 0)
    connection->length = 0; /* it is closed, as on_read will see */
}

/* Is this how the echo goes on? */
static int
is_echo(const connection_t *connection, const char *bytes, size_t length)
{
  if (length > connection->length * connection->copies - connection->echoed)
    return 0;
  for (size_t i = 0; i < length; i++)
    if (bytes[i] !=
        connection->message[(connection->echoed + i) % connection->length])
      return 0;
  return 1;
}

static void
check_echo(load_t *load, connection_t *connection, const char *bytes,
           size_t length)
{
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

static void
cannot_connect(load_t *load, int error)
{
  if (load->running_ns != 0 &&
      (error == UV_ECONNREFUSED || error == UV_ECONNRESET))
    give_up(load, "the server is gone", "no verdict");
  else
    give_up(load, "cannot connect", uv_strerror(error));
}

static void
plan_first_message(load_t *load, connection_t *connection)
{
  uint64_t timeout_ns = load->options.timeout_ms * NS_PER_MS;
  uint64_t first_ns = connection->chatty || timeout_ns == 0
                          ? load->options.interval_ms * NS_PER_MS
                          : timeout_ns / 2;

  connection->send_at_ns = uv_hrtime();
  if (load->options.are_together && !connection->chatty)
    connection->send_at_ns = TOGETHER;
  else
    connection->send_at_ns += random_below(load, first_ns);
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
  if (is_probe(load, connection))
    load->present_ns = connection->heard_ns;
  connection->state = OPEN;
  plan_first_message(load, connection);
  load->connecting--;
  load->open++;
  load->silent += !connection->chatty;
  connect_more(load);
}

/* All of 127.0.0.0/8 is this machine: there are as many addresses to connect
 * from as one likes. The port is better chosen when the connection's other end
 * is known, too: bind() takes none that was in use a minute ago. */
static int
choose_source(connection_t *connection, uint64_t index)
{
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

void
connect_one(load_t *load, uint64_t index)
{
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

void
connect_more(load_t *load)
{
  while (!load->failed && load->started < load->total &&
         load->connecting < CONNECTING_AT_ONCE)
    connect_one(load, load->started++);
}

/* ---- Churn ------------------------------------------------------------- */

int
is_churning(const load_t *load, uint64_t now_ns)
{
  return load->options.churns && load->running_ns != 0 &&
         now_ns - load->running_ns < load->options.duration_s * NS_PER_S;
}

/* Nobody waits for the last message's echo. */
static void
end_chat(load_t *load, connection_t *connection)
{
  uint64_t end = random_below(load, 3);
  uv_buf_t goodbye = uv_buf_init(connection->message, MESSAGE_MAX);

  if (end == 0) { /* it falls silent, and has to be closed */
    connection->chatty = 0;
    connection->send_at_ns = NEVER;
    load->silent++;
    return;
  }
  uv_try_write((uv_stream_t *)&connection->tcp, &goodbye, 1);
  if (end == 1)
    close_connection(connection);
  else
    reset_connection(connection);
}

void
speak(load_t *load, connection_t *connection, uint64_t now_ns)
{
  if (connection->chatty && is_churning(load, now_ns) &&
      !is_probe(load, connection) && random_below(load, CHAT) == 0)
    end_chat(load, connection);
  else
    send_message(load, connection);
}
