/* SPDX-License-Identifier: MIT */

/* What the servers have in common: their command lines, the options that work
 * alike on each of their loops, and figures. */

#ifndef EXAMPLES_SERVER_H
#define EXAMPLES_SERVER_H

#include <stdint.h>

#include <uv.h>
#include <uvwheel.h>

#define NO_HTTP UINT32_MAX
#define CHANCE_MS 100 /* see --timer chance */

enum { IDLE_SERVER = 1, UDP_SESSIONS = 2, MULTI_LOOP = 4, HTTP_SERVER = 8 };

typedef struct server_options_s {
  uint32_t threads; /* of multi-loop */
  const char *host;
  uint16_t port;
  uint64_t timeout_ms;
  const char *timer;   /* what watches idle time: "wheel" or a rival */
  uint64_t most_peers; /* at once, or 0 */
  int sheds;           /* when full, the idlest make room */
  uvwheel_options_t wheel;
  const char *http_host;
  uint32_t http_port;     /* of the live page, or NO_HTTP */
  uint64_t block_seconds; /* 0: never */
  uint64_t second_ms;     /* of http-server's timeouts */
} server_options_t;

/* Fills *options for one of them, or ends the program after a complaint or
 * --help. */
void parse_options(int argc, char **argv, unsigned server,
                   server_options_t *options);

/* At SIGUSR1 a callback blocks the loop (--block). The options have to stay;
 * the handle is the caller's to close. */
void block_start(uv_signal_t *block, uv_loop_t *loop,
                 server_options_t *options);

/* " active=1 fired=2 ..." */
#define WHEEL_TEXT_SIZE 512
void wheel_format(const uvwheel_stats_t *stats, char text[WHEEL_TEXT_SIZE]);

typedef struct usage_s {
  double cpu_s;         /* of all threads, in the kernel as well */
  uint64_t rss_kib;     /* resident memory                       */
  uint64_t max_rss_kib; /* the most that there was               */
} usage_t;

usage_t usage_of_process(void);

/* The bytes that the peer has not taken yet. Linux also tells how many of these
 * the kernel holds, up to 4 MB; elsewhere only those that libuv holds count. */
size_t count_untaken(const uv_stream_t *stream);

/* For how long a loop left its sockets alone. Start it after the wheel's init,
 * as libuv calls the newest check first. An iteration of the loop begins
 * when the I/O of a poll is handled, and ends with the next poll: the loop
 * calls timers, and closes the handles that they wanted closed. It is measured
 * in CPU time, without waiting and other processes. */
typedef struct iterations_s {
  uv_check_t after_poll;
  uv_prepare_t before_poll;
  uint64_t begun_ns; /* CPU time */
  uint64_t longest_ns;
} iterations_t;

/* Begins to measure, and stops it: the handles are then closed. They do not
 * keep the loop alive. */
void iterations_start(iterations_t *iterations, uv_loop_t *loop);
void iterations_stop(iterations_t *iterations);

#endif /* EXAMPLES_SERVER_H */
