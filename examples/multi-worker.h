/* SPDX-License-Identifier: MIT */

/* One thread of multi-loop: an echo server with idle timeouts, complete with
 * loop, wheel and listening socket. It knows of no other. */

#ifndef EXAMPLES_MULTI_WORKER_H
#define EXAMPLES_MULTI_WORKER_H

#include <stdint.h>

#include <sys/socket.h>
#include <uv.h>
#include <uvwheel.h>

#include "common/server-options.h"

typedef struct figures_s {
  uint64_t open; /* connections */
  uint64_t accepted;
  uint64_t turned_away;
  uint64_t messages;
  uint64_t idle_closes;
  double cpu_s;
} figures_t;

/* While the thread runs all of this is its own, but worker_stop. */
typedef struct worker_s {
  unsigned number;
  const server_options_t *options; /* of all threads the same */
  uint64_t descriptors;            /* more are not used for connections */
  uv_thread_t thread;
  uv_loop_t loop;
  uv_tcp_t listener;
  uv_async_t stop;
  uv_timer_t stats_timer;
  uvwheel_t wheel;
  figures_t figures;
  int error; /* of closing the loop */
} worker_t;

/* Makes all that the thread needs, and listens. Returns 0 or a UV_E* code; the
 * caller should then end the program. */
int worker_open(worker_t *worker, unsigned number, uint64_t descriptors,
                const server_options_t *options,
                const struct sockaddr *address);

/* Starts the thread. Returns 0 or a UV_E* code. */
int worker_start(worker_t *worker);

/* Asks a running thread, from any other, to close everything and end. */
void worker_stop(worker_t *worker);

/* Waits for the end of the thread. Returns 0, or a UV_E* code if it could not
 * close its loop. From then on its figures may be read. */
int worker_join(worker_t *worker);

/* One line. */
void print_figures(const char *title, unsigned number,
                   const figures_t *figures);

#endif /* EXAMPLES_MULTI_WORKER_H */
