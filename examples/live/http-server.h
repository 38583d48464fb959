/* SPDX-License-Identifier: MIT */

/* A small HTTP server beside another one on the same loop and wheel: it answers
 * one request for each connection, or keeps the connection as a stream, to
 * which chunks are sent until the peer leaves.
 *
 * Nothing that a peer does can make it grow: connections are a fixed number,
 * newcomers wait in the backlog when all are taken, and each of them has one
 * timer on the wheel, which ends those whose request does not come, whose
 * answer does not leave or whose chunks are not taken. */

#ifndef EXAMPLES_HTTP_SERVER_H
#define EXAMPLES_HTTP_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include <uv.h>
#include <uvwheel.h>

#include "../common/cli.h"
#include "http-request.h"

#define HTTP_MAX_STREAMS 128
#define HTTP_MAX_CONNECTIONS 160
#define HTTP_PATIENCE_MS 5000

typedef struct http_server_s http_server_t;
typedef struct http_connection_s http_connection_t;

/* A good request has come. The callback calls one of the http_answer
 * functions, or http_stream. */
typedef void (*http_request_cb)(http_connection_t *connection);

/* Bytes on their way, to many streams at once perhaps; freed with its last
 * reference. */
typedef struct http_chunk_s {
  uint64_t references;
  size_t length;
  char bytes[];
} http_chunk_t;

enum http_state {
  HTTP_FREE,
  HTTP_READING,   /* its request                                      */
  HTTP_ANSWERING, /* nothing follows the answer; the peer is to close */
  HTTP_STREAMING,
  HTTP_CLOSING
};

struct http_connection_s {
  uv_tcp_t tcp; /* its data points to the server */
  uvwheel_timer_t patience;
  enum http_state state;
  int is_peer_done; /* it closed its side before it had the whole answer */
  int is_sending;   /* a stream: the last write is not done */
  http_request_t request;
  uv_write_t write;
  uv_shutdown_t shutdown;
  http_chunk_t *chunk; /* that is being written, or NULL */
  char head[1024];
};

struct http_server_s {
  /* set before http_server_start */
  uv_loop_t *loop;
  uvwheel_t *wheel;
  http_request_cb on_request;
  const char *fields; /* header fields of all answers, each with its CRLF */
  uint64_t descriptor_limit;
  void *data;
  /* read-only */
  uint64_t streams;
  char address[ADDRESS_TEXT_SIZE]; /* where it listens */
  /* private */
  uv_tcp_t listener;
  int is_on_loopback;
  int is_full; /* a newcomer waits for a free connection */
  http_connection_t connections[HTTP_MAX_CONNECTIONS];
  char read_buffer[4096]; /* parsed before the next read */
};

/* Listens. On failure it complains and returns a UV_E* code; stop it then. */
int http_server_start(http_server_t *server, const char *host, uint16_t port);

/* Closes all its handles. */
void http_server_stop(http_server_t *server);

/* Answers with a status and its name. */
void http_answer_status(http_connection_t *connection, int status);

/* Answers with a body, which must stay as it is. */
void http_answer(http_connection_t *connection, const char *type,
                 const char *body, size_t length);

/* The same with the bytes of a chunk. */
void http_answer_chunk(http_connection_t *connection, const char *type,
                       http_chunk_t *chunk);

/* Begins a stream, or answers that there are too many. */
void http_stream(http_connection_t *connection, const char *type);

/* An empty chunk with room for so many bytes and one reference, or NULL. */
http_chunk_t *http_chunk_new(size_t size);
void http_chunk_release(http_chunk_t *chunk);

/* Sends the chunk to all streams, except those that still have not taken the
 * one before: they miss this one. */
void http_send_to_streams(http_server_t *server, http_chunk_t *chunk);

#endif /* EXAMPLES_HTTP_SERVER_H */
