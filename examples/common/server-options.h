/* SPDX-License-Identifier: MIT */

/* The command lines of the servers, and the options that work alike on each of
 * their loops. */

#ifndef EXAMPLES_SERVER_OPTIONS_H
#define EXAMPLES_SERVER_OPTIONS_H

#include <stdint.h>

#include <uv.h>
#include <uvwheel.h>

#define NO_HTTP UINT32_MAX
#define CHANCE_MS 100 /* see --timer chance */

enum { IDLE_SERVER = 1, UDP_SESSIONS = 2, MULTI_LOOP = 4 };

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
  uint64_t stats_seconds; /* 0: never */
  uint64_t block_seconds; /* 0: never */
} server_options_t;

/* Fills *options for one of them, or ends the program after a complaint or
 * --help. */
void parse_options(int argc, char **argv, unsigned server,
                   server_options_t *options);

/* Figures every so many seconds (--stats), and a callback that blocks the loop
 * (--block). */
typedef struct extras_s {
  uv_timer_t stats_timer;
  uv_signal_t block;
} extras_t;

/* on_stats finds data in its timer. The options have to stay. */
void extras_start(extras_t *extras, uv_loop_t *loop, server_options_t *options,
                  uv_timer_cb on_stats, void *data);
void extras_stop(extras_t *extras);

/* " active=1 fired=2 ..." */
#define WHEEL_TEXT_SIZE 512
void wheel_format(const uvwheel_stats_t *stats, char text[WHEEL_TEXT_SIZE]);

#endif /* EXAMPLES_SERVER_OPTIONS_H */
