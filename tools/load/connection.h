/* SPDX-License-Identifier: MIT */

/* The connections of idle-load, and what each of them does. */

#ifndef LOAD_CONNECTION_H
#define LOAD_CONNECTION_H

#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "../../examples/common/cli.h"
#include "judge.h"
#include "options.h"

#define CONNECTING_AT_ONCE 256 /* less than any server's backlog */
#define MESSAGE_MAX 64
#define NEVER UINT64_MAX
#define TOGETHER (UINT64_MAX - 1) /* when all are connected */
#define PROBE 0                   /* its index among the connections */

typedef struct load_s load_t;

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

struct load_s {
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
};

/* The probe is none of the connections that are judged. */
int is_probe(const load_t *load, const connection_t *connection);

/* Is it the time when, with --churn, chats end and connections are replaced? */
int is_churning(const load_t *load, uint64_t now_ns);

/* Begins a connection that is not in use. */
void connect_one(load_t *load, uint64_t index);

/* Begins as many as the server can take at once. Each that is accepted begins
 * more. */
void connect_more(load_t *load);

/* Lets an open connection speak whose send_at_ns has come, or end its chat. */
void speak(load_t *load, connection_t *connection, uint64_t now_ns);

void close_connection(connection_t *connection);

/* Closes all handles: the loop ends. */
void close_everything(load_t *load);

/* Does so without a verdict. */
void give_up(load_t *load, const char *what, const char *why);

#endif /* LOAD_CONNECTION_H */
