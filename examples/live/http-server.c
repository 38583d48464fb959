/* SPDX-License-Identifier: MIT */

#include "http-server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG 128

/* What the kernel may hold for a stream (Linux doubles it): some frames. A peer
 * that has stopped to read is noticed soon, and costs little until then. */
#define STREAM_BUFFER_BYTES 16384

static http_server_t *
server_of(const http_connection_t *connection)
{
  return connection->tcp.data;
}

static uv_stream_t *
stream_of(http_connection_t *connection)
{
  return (uv_stream_t *)&connection->tcp;
}

/* ---- Chunks ------------------------------------------------------------- */

http_chunk_t *
http_chunk_new(size_t size)
{
  http_chunk_t *chunk = malloc(sizeof(*chunk) + size);

  if (chunk != NULL)
    *chunk = (http_chunk_t){.references = 1};
  return chunk;
}

void
http_chunk_release(http_chunk_t *chunk)
{
  if (chunk != NULL && --chunk->references == 0)
    free(chunk);
}

/* ---- A connection's end ------------------------------------------------- */

static void accept_next(http_server_t *server);

static void
on_closed(uv_handle_t *tcp)
{
  http_connection_t *connection = (http_connection_t *)tcp;
  http_server_t *server = tcp->data;

  http_chunk_release(connection->chunk);
  connection->chunk = NULL;
  connection->state = HTTP_FREE;
  if (server->is_full && !uv_is_closing((uv_handle_t *)&server->listener)) {
    server->is_full = 0;
    accept_next(server);
  }
}

static void
close_connection(http_connection_t *connection)
{
  if (connection->state == HTTP_FREE || connection->state == HTTP_CLOSING)
    return;
  if (connection->state == HTTP_STREAMING)
    server_of(connection)->streams--;
  connection->state = HTTP_CLOSING;
  uvwheel_timer_stop(&connection->patience);
  uv_close((uv_handle_t *)&connection->tcp, on_closed);
}

/* ---- Answers ------------------------------------------------------------ */

/* A peer that has closed its side has no more to say: all is done. */
static void
on_answer_sent(uv_shutdown_t *shutdown, int status)
{
  http_connection_t *connection = (http_connection_t *)shutdown->handle;

  if (status != 0 || connection->is_peer_done)
    close_connection(connection);
}

/* Sends the head and a body, then nothing more. The connection is closed once
 * the peer has closed it, or patience ends: closed at once, with bytes of the
 * peer unread, it would be reset, and the answer be lost. */
static void
send_last(http_connection_t *connection, const char *body, size_t length)
{
  uv_stream_t *stream = stream_of(connection);
  uv_buf_t buffers[] = {
      uv_buf_init(connection->head, (unsigned)strlen(connection->head)),
      uv_buf_init((char *)(uintptr_t)body, (unsigned)length),
  };
  unsigned count = connection->request.parser.method == HTTP_HEAD ? 1 : 2;

  connection->state = HTTP_ANSWERING;
  uvwheel_timer_refresh(&connection->patience);
  if (uv_write(&connection->write, stream, buffers, count, NULL) != 0 ||
      uv_shutdown(&connection->shutdown, stream, on_answer_sent) != 0)
    close_connection(connection);
}

static const char *
field_of(int status)
{
  switch (status) {
  case HTTP_STATUS_METHOD_NOT_ALLOWED:
    return "Allow: GET, HEAD\r\n";
  case HTTP_STATUS_SERVICE_UNAVAILABLE:
    return "Retry-After: 5\r\n";
  default:
    return "";
  }
}

/* length: of the body, or NULL if that ends with the connection. */
static void
write_head(http_connection_t *connection, int status, const char *type,
           const size_t *length)
{
  char field[64] = "";

  if (length != NULL)
    snprintf(field, sizeof(field), "Content-Length: %zu\r\n", *length);
  snprintf(connection->head, sizeof(connection->head),
           "HTTP/1.1 %d %s\r\n"
           "Content-Type: %s\r\n"
           "Connection: close\r\n"
           "%s%s%s\r\n",
           status, http_status_str((enum http_status)status), type, field,
           field_of(status), server_of(connection)->fields);
}

void
http_answer(http_connection_t *connection, const char *type, const char *body,
            size_t length)
{
  write_head(connection, HTTP_STATUS_OK, type, &length);
  send_last(connection, body, length);
}

void
http_answer_chunk(http_connection_t *connection, const char *type,
                  http_chunk_t *chunk)
{
  connection->chunk = chunk;
  chunk->references++;
  http_answer(connection, type, chunk->bytes, chunk->length);
}

void
http_answer_status(http_connection_t *connection, int status)
{
  const char *name = http_status_str((enum http_status)status);
  size_t length = strlen(name);

  write_head(connection, status, "text/plain", &length);
  send_last(connection, name, length);
}

/* ---- Streams ------------------------------------------------------------ */

/* Who takes what it is sent is alive. */
static void
on_chunk_sent(uv_write_t *write, int status)
{
  http_connection_t *connection = (http_connection_t *)write->handle;

  http_chunk_release(connection->chunk);
  connection->chunk = NULL;
  connection->is_sending = 0;
  if (status == 0)
    uvwheel_timer_refresh(&connection->patience);
  else
    close_connection(connection);
}

/* chunk: what the bytes are part of, or NULL. */
static void
send_to_stream(http_connection_t *connection, http_chunk_t *chunk,
               uv_buf_t bytes)
{
  if (uv_write(&connection->write, stream_of(connection), &bytes, 1,
               on_chunk_sent) != 0) {
    close_connection(connection);
    return;
  }
  connection->is_sending = 1;
  connection->chunk = chunk;
  if (chunk != NULL)
    chunk->references++;
}

void
http_stream(http_connection_t *connection, const char *type)
{
  http_server_t *server = server_of(connection);
  int size = STREAM_BUFFER_BYTES;

  if (server->streams >= HTTP_MAX_STREAMS) {
    http_answer_status(connection, HTTP_STATUS_SERVICE_UNAVAILABLE);
    return;
  }
  write_head(connection, HTTP_STATUS_OK, type, NULL);
  if (connection->request.parser.method == HTTP_HEAD) {
    send_last(connection, NULL, 0);
    return;
  }
  connection->state = HTTP_STREAMING;
  server->streams++;
  uv_send_buffer_size((uv_handle_t *)&connection->tcp, &size);
  uv_tcp_nodelay(&connection->tcp, 1);
  send_to_stream(
      connection, NULL,
      uv_buf_init(connection->head, (unsigned)strlen(connection->head)));
}

void
http_send_to_streams(http_server_t *server, http_chunk_t *chunk)
{
  for (int i = 0; i < HTTP_MAX_CONNECTIONS; i++) {
    http_connection_t *connection = &server->connections[i];
    if (connection->state == HTTP_STREAMING && !connection->is_sending)
      send_to_stream(connection, chunk,
                     uv_buf_init(chunk->bytes, (unsigned)chunk->length));
  }
}

/* ---- Requests ----------------------------------------------------------- */

/* A web page anywhere can have its own host name resolve to 127.0.0.1, and its
 * visitor's browser then takes what a server there answers for that page's own
 * (DNS rebinding). But the browser tells the name that it was led by: on
 * loopback only the names of this machine are served. Where other machines can
 * connect anyway, names are theirs to choose. */
static int
is_host_allowed(const http_server_t *server, const http_request_t *request)
{
  return !server->is_on_loopback ||
         http_request_names_host(request, "localhost") ||
         http_request_names_host(request, "127.0.0.1") ||
         http_request_names_host(request, "[::1]") ||
         strcmp(request->host.bytes, server->address) == 0; /* 127.0.0.2 */
}

static void
on_read_wanted(uv_handle_t *tcp, size_t suggested, uv_buf_t *buffer)
{
  http_server_t *server = tcp->data;

  (void)suggested;
  *buffer = uv_buf_init(server->read_buffer, sizeof(server->read_buffer));
}

static void
on_request_bytes(http_connection_t *connection, const char *bytes,
                 size_t length)
{
  http_server_t *server = server_of(connection);
  int status = http_request_read(&connection->request, bytes, length);

  if (status == HTTP_STATUS_OK &&
      !is_host_allowed(server, &connection->request))
    status = HTTP_STATUS_FORBIDDEN;
  if (status == HTTP_STATUS_OK)
    server->on_request(connection);
  else if (status != 0)
    http_answer_status(connection, status);
}

static void
on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
  http_connection_t *connection = (http_connection_t *)stream;

  if (length == 0)
    return; /* libuv's word for "try again" */
  if (length == UV_EOF && connection->state == HTTP_ANSWERING &&
      uv_stream_get_write_queue_size(stream) != 0) {
    connection->is_peer_done = 1; /* but it may wait for the rest */
    return;
  }
  if (length < 0 || connection->state == HTTP_STREAMING)
    close_connection(connection);
  else if (connection->state == HTTP_READING)
    on_request_bytes(connection, buffer->base, (size_t)length);
}

/* Browsers open connections that they may need later: such a one, on which
 * nothing came, is closed without a word. */
static void
on_patience_ended(uvwheel_timer_t *timer)
{
  http_connection_t *connection = timer->data;

  if (connection->state != HTTP_READING || !connection->request.is_begun) {
    close_connection(connection);
    return;
  }
  uvwheel_timer_start(timer, on_patience_ended, HTTP_PATIENCE_MS, 0);
  http_answer_status(connection, HTTP_STATUS_REQUEST_TIMEOUT);
}

/* ---- Accept ------------------------------------------------------------- */

static http_connection_t *
find_free(http_server_t *server)
{
  for (int i = 0; i < HTTP_MAX_CONNECTIONS; i++)
    if (server->connections[i].state == HTTP_FREE)
      return &server->connections[i];
  return NULL;
}

static void
welcome(http_server_t *server, http_connection_t *connection)
{
  uvwheel_timer_t *timer = &connection->patience;

  if (uvwheel_timer_start(timer, on_patience_ended, HTTP_PATIENCE_MS, 0) != 0 ||
      uv_read_start(stream_of(connection), on_read_wanted, on_read) != 0)
    close_connection(connection);
  else if (is_spare_descriptor(&connection->tcp, server->descriptor_limit))
    http_answer_status(connection, HTTP_STATUS_SERVICE_UNAVAILABLE);
}

/* With all connections taken nothing is accepted: libuv then asks for no more
 * until uv_accept is called. */
static void
accept_next(http_server_t *server)
{
  http_connection_t *connection = find_free(server);

  if (connection == NULL) {
    server->is_full = 1;
    return;
  }
  uv_tcp_init(server->loop, &connection->tcp);
  connection->tcp.data = server;
  uvwheel_timer_init(server->wheel, &connection->patience);
  connection->patience.data = connection;
  http_request_init(&connection->request);
  connection->is_peer_done = 0;
  connection->state = HTTP_READING;
  if (uv_accept((uv_stream_t *)&server->listener, stream_of(connection)) == 0)
    welcome(server, connection);
  else
    close_connection(connection);
}

static void
on_connection(uv_stream_t *listener, int status)
{
  if (status == 0)
    accept_next(listener->data);
}

/* ---- Start and stop ----------------------------------------------------- */

static int
is_loopback(const struct sockaddr_storage *address)
{
  const struct sockaddr_in *ip4 = (const struct sockaddr_in *)address;
  const struct sockaddr_in6 *ip6 = (const struct sockaddr_in6 *)address;

  if (address->ss_family == AF_INET)
    return ntohl(ip4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&ip6->sin6_addr);
}

int
http_server_start(http_server_t *server, const char *host, uint16_t port)
{
  struct sockaddr_storage address;
  int size = sizeof(address);

  uv_tcp_init(server->loop, &server->listener);
  server->listener.data = server;
  int error = listen_at(&server->listener, host, port, BACKLOG, on_connection,
                        server->address);
  if (error != 0)
    return error;
  uv_tcp_getsockname(&server->listener, (struct sockaddr *)&address, &size);
  server->is_on_loopback = is_loopback(&address);
  return 0;
}

void
http_server_stop(http_server_t *server)
{
  uv_close((uv_handle_t *)&server->listener, NULL);
  for (int i = 0; i < HTTP_MAX_CONNECTIONS; i++)
    close_connection(&server->connections[i]);
}
