/* SPDX-License-Identifier: MIT */

/* The echo server of one loop, which closes idle connections. Each embeds one
 * timer: accept: expect; a read, a completed write: refresh; end: close.
 * idle-server has one of these, multi-loop one for each of its threads.
 *
 * It also shows what a server needs besides to stay up:
 * - a peer that does not read: while bytes wait to be sent to it, nothing more
 *   is read from it, so at most one read buffer is held for each connection;
 *   it is closed after one to two timeouts, but one that reads slowly is kept
 * - places, descriptors or memory used up: new connections are turned away,
 *   aloud, until there is some again; or, if the server sheds, those that were
 *   idle longest make room before descriptors run out, and newcomers that have
 *   said nothing, once they hold more than an eighth of the places
 */

#ifndef EXAMPLES_ECHO_H
#define EXAMPLES_ECHO_H

#include <stdint.h>

#include <uv.h>
#include <uvwheel.h>

#include "common/server.h"

/* Why newcomers are turned away. */
typedef enum {
  ECHO_NO_DESCRIPTOR,
  ECHO_NO_MEMORY,
  ECHO_FULL,
  ECHO_NOT_ACCEPTED, /* the system has refused: errors, not connections */
  ECHO_REASONS
} echo_reason_t;

/* All of them are counts. */
typedef struct echo_figures_s {
  uint64_t open; /* connections whose memory is in use */
  uint64_t accepted;
  uint64_t turned_away[ECHO_REASONS];
  uint64_t refreshes;
  uint64_t idle_closes;
  uint64_t shed; /* closed before their time, to make room */
} echo_figures_t;

typedef struct echo_s {
  uv_tcp_t listener; /* to be bound, and to listen with echo_on_connection */
  uvwheel_t wheel;
  uvwheel_t newcomers; /* until they say something; zeros if it does not shed */
  uint64_t timeout_ms;
  uint64_t most_places; /* connections at once, or 0 */
  int sheds;            /* the idlest connections make room, see make_room */
  int is_shedding;
  echo_figures_t figures;
  uint64_t descriptor_limit; /* connections get no higher ones */

  uint64_t next_complaint_ms;
  uv_tcp_t unwelcome; /* see turn_away */
  int is_turning_away;
  int is_newcomer_waiting;
  char read_buffer[65536]; /* one is enough: see on_read */
} echo_t;

/* Begins with one that is zeroed except for the limit. family: of the listening
 * socket, or AF_UNSPEC. Returns 0 or a UV_E* code; echo_stop must follow in any
 * case. */
int echo_init(echo_t *echo, uv_loop_t *loop, unsigned family,
              const server_options_t *options);

void echo_on_connection(uv_stream_t *listener, int status);

/* Closes all its handles, and the wheel. */
void echo_stop(echo_t *echo);

/* "open=1 accepted=2 ..." */
#define ECHO_TEXT_SIZE 256
void echo_format(const echo_figures_t *figures, char text[ECHO_TEXT_SIZE]);

#endif /* EXAMPLES_ECHO_H */
