/* SPDX-License-Identifier: MIT */

#include "server.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <unistd.h>

#ifdef __linux__
#include <linux/sockios.h>
#include <sys/ioctl.h>
#endif

#include "cli.h"
#include "options.h"

#define MAX_THREADS 1024

#if defined(__APPLE__)
#define MAX_RSS_PER_KIB 1024 /* it counts bytes there */
#else
#define MAX_RSS_PER_KIB 1
#endif

#define TEXT(field) OPTION_FIELD(server_options_t, field)
#define NUMBER(field, min, max) OPTION_NUMBER(server_options_t, field, min, max)

enum { TCP = IDLE_SERVER | MULTI_LOOP, ALL = TCP | UDP_SESSIONS };

static const option_row_t rows[] = {
    {MULTI_LOOP, "threads", "N", "how many threads (one for each processor)",
     NUMBER(threads, 1, MAX_THREADS)},
    {ALL | HTTP_SERVER, "bind", "ADDRESS", "listen on this address (127.0.0.1)",
     TEXT(host)},
    {ALL | HTTP_SERVER, "port", "PORT",
     "listen on this port, 0: on any free one (7007)",
     NUMBER(port, 0, UINT16_MAX)},
    {ALL, "timeout", "MS",
     "end a connection or a session after this idle time\n"
     "(5000)",
     NUMBER(timeout_ms, 1, MAX_TIMEOUT_MS)},
    {UDP_SESSIONS, "sessions", "N", "most sessions at once, 0: no limit (0)",
     NUMBER(most_peers, 0, UINT64_MAX)},
    {TCP | HTTP_SERVER, "max-connections", "N",
     "most connections of a loop at once, 0: as many as there\n"
     "are descriptors (0)",
     NUMBER(most_peers, 0, UINT64_MAX)},
    {TCP, "shed", NULL,
     "then close the idlest to make room for newcomers, instead\n"
     "of turning newcomers away; a newcomer that says nothing\n"
     "has a fifth of the timeout, and is closed first if such\n"
     "newcomers hold more than an eighth of the places",
     OPTION_FIELD(server_options_t, sheds)},
    {IDLE_SERVER, "timer", "KIND",
     "how to watch idle time (wheel):\n"
     "  wheel  by one uvwheel_timer_t for each peer\n"
     "  uv     by one uv_timer_t for each peer\n"
     "  chance one that is lazy; when it expires it waits\n"
     "         100 ms more, once\n"
     "  none   not at all",
     TEXT(timer)},
    {UDP_SESSIONS, "timer", "KIND",
     "wheel: a session has a uvwheel_timer_t; uv: a uv_timer_t;\n"
     "chance: a lazy one that waits 100 ms more, once (wheel)",
     TEXT(timer)},
    {ALL, "tick", "MS", "resolution of a wheel (100)",
     NUMBER(wheel.tick_ms, 1, UVWHEEL_MAX_TICK_MS)},
    {ALL, "slots", "N", "slots of a wheel (512, more for a shorter tick)",
     NUMBER(wheel.slots, 1, UVWHEEL_MAX_SLOTS)},
    {TCP | HTTP_SERVER, "http", "PORT",
     "show the wheels, live, to browsers at this port, and to\n"
     "Prometheus at /metrics; 0: at any free one (no page)",
     NUMBER(http_port, 0, UINT16_MAX)},
    {TCP | HTTP_SERVER, "http-host", "ADDRESS",
     "listen for browsers on this address (127.0.0.1)", TEXT(http_host)},
    {HTTP_SERVER, "second", "MS",
     "for tests: how long a second of its timeouts is (1000)",
     NUMBER(second_ms, 1, MAX_TIMEOUT_MS)},
    {TCP, "block", "SECONDS",
     "for tests: at SIGUSR1 block each loop for so many\n"
     "seconds, then call uv_update_time",
     NUMBER(block_seconds, 1, MAX_SECONDS)},
};

static const char *description_of(unsigned server) {
  if (server == UDP_SESSIONS)
    return "A UDP server with a session for each peer. It answers each\n"
           "datagram with the number of its session's datagrams, then the\n"
           "datagram itself. One that begins with a question mark only asks:\n"
           "it counts for nothing.\n";
  if (server == MULTI_LOOP)
    return "An echo server that closes idle connections. It has several\n"
           "threads, each with a loop and a wheel of its own.\n";
  if (server == HTTP_SERVER)
    return "An HTTP server in which the timeouts of a connection meet.\n";
  return "An echo server that closes idle connections.\n";
}

void parse_options(int argc, char **argv, unsigned server,
                   server_options_t *options) {
  command_line_t line = {
      .program = server,
      .description = description_of(server),
      .ending = "Stop it with Ctrl-C or SIGTERM.\n",
      .rows = rows,
      .count = sizeof(rows) / sizeof(rows[0]),
  };

  *options = (server_options_t){
      .threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
      .host = DEFAULT_HOST,
      .port = DEFAULT_PORT,
      .timeout_ms = DEFAULT_TIMEOUT_MS,
      .timer = "wheel",
      .http_host = DEFAULT_HOST,
      .http_port = NO_HTTP,
      .second_ms = 1000,
  };
  parse_command_line(argc, argv, &line, options);
  if (strcmp(options->timer, "wheel") == 0)
    return;
  if (options->http_port != NO_HTTP)
    usage_error("--http shows the wheel, there is none with --timer %s",
                options->timer);
}

/* ---- --block ------------------------------------------------------------ */

/* As a callback that waits for something: the loop is blocked. */
static void on_block(uv_signal_t *signal, int number) {
  const server_options_t *options = signal->data;

  (void)number;
  uv_sleep((unsigned)options->block_seconds * 1000);
  uv_update_time(signal->loop);
}

void block_start(uv_signal_t *block, uv_loop_t *loop,
                 server_options_t *options) {
  uv_signal_init(loop, block);
  block->data = options;
  if (options->block_seconds != 0)
    uv_signal_start(block, on_block, SIGUSR1);
}

/* ---- Figures ------------------------------------------------------------ */

void wheel_format(const uvwheel_stats_t *stats, char text[WHEEL_TEXT_SIZE]) {
  snprintf(text, WHEEL_TEXT_SIZE,
           " active=%" PRIu64 " fired=%" PRIu64 " rescheduled=%" PRIu64
           " turns=%" PRIu64 " turns_cut=%" PRIu64 " turns_overrun=%" PRIu64
           " turn_max_us=%" PRIu64 " lateness_max_ms=%" PRIu64
           " stalls=%" PRIu64 " stall_sum_ms=%" PRIu64 " put_back=%" PRIu64,
           stats->active, stats->fired, stats->rescheduled, stats->turns,
           stats->turns_cut, stats->turns_overrun, stats->turn_max_us,
           stats->lateness_max_ms, stats->stalls, stats->stall_sum_ms,
           stats->put_back);
}

static double seconds(uv_timeval_t time) {
  return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

usage_t usage_of_process(void) {
  uv_rusage_t usage = {0};
  size_t rss = 0;

  uv_getrusage(&usage);
  uv_resident_set_memory(&rss);
  return (usage_t){
      .cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime),
      .rss_kib = rss / 1024,
      .max_rss_kib = usage.ru_maxrss / MAX_RSS_PER_KIB,
  };
}

/* ---- Bytes that a peer has not taken ------------------------------------- */

size_t count_untaken(const uv_stream_t *stream) {
  size_t count = uv_stream_get_write_queue_size(stream);
#ifdef SIOCOUTQ
  uv_os_fd_t descriptor;
  int in_kernel;

  if (uv_fileno((const uv_handle_t *)stream, &descriptor) == 0 &&
      ioctl(descriptor, SIOCOUTQ, &in_kernel) == 0)
    count += (size_t)in_kernel;
#endif
  return count;
}

/* ---- Iterations ---------------------------------------------------------- */

static uint64_t cpu_ns(void) {
  struct timespec now;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void on_polled(uv_check_t *after_poll) {
  ((iterations_t *)after_poll->data)->begun_ns = cpu_ns();
}

static void on_poll(uv_prepare_t *before_poll) {
  iterations_t *iterations = before_poll->data;
  uint64_t took_ns = cpu_ns() - iterations->begun_ns;

  if (iterations->longest_ns < took_ns)
    iterations->longest_ns = took_ns;
}

void iterations_start(iterations_t *iterations, uv_loop_t *loop) {
  uv_check_init(loop, &iterations->after_poll);
  uv_prepare_init(loop, &iterations->before_poll);
  iterations->after_poll.data = iterations;
  iterations->before_poll.data = iterations;
  iterations->begun_ns = cpu_ns();
  iterations->longest_ns = 0;
  uv_check_start(&iterations->after_poll, on_polled);
  uv_prepare_start(&iterations->before_poll, on_poll);
  uv_unref((uv_handle_t *)&iterations->after_poll);
  uv_unref((uv_handle_t *)&iterations->before_poll);
}

void iterations_stop(iterations_t *iterations) {
  uv_close((uv_handle_t *)&iterations->after_poll, NULL);
  uv_close((uv_handle_t *)&iterations->before_poll, NULL);
}
