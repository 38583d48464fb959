/* SPDX-License-Identifier: MIT */

#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#define DESCRIPTORS_KEPT 8 /* for all that is not a connection */

/* For what a server opens later, and for a connection that is accepted before
 * another one is closed to make room. */
#define DESCRIPTORS_TO_COME 8

void announce(const char *format, ...) {
  va_list arguments;

  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  if (fflush(stdout) != 0) {
    complain("cannot write to stdout: %s", strerror(errno));
    exit(EXIT_FAILURE);
  }
}

/* A pipe that is ready for anything takes a short line as a whole. It belongs
 * to others as well, so it is not made non-blocking. */
static int is_written(const char *line, int length) {
  struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

  return poll(&out, 1, 0) == 1 &&
         write(STDOUT_FILENO, line, (size_t)length) == length;
}

uint64_t log_line(const char *format, ...) {
  static uint64_t lost, told;
  char line[256];
  va_list arguments;

  if (lost != told &&
      is_written(line, snprintf(line, sizeof(line), "%" PRIu64 " lines lost\n",
                                lost - told)))
    told = lost;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  if (length >= (int)sizeof(line))
    length = (int)sizeof(line) - 1;
  lost += (uint64_t)!is_written(line, length);
  return lost;
}

void parse_address(const char *host, uint16_t port,
                   struct sockaddr_storage *address) {
  if (uv_ip4_addr(host, port, (struct sockaddr_in *)address) != 0 &&
      uv_ip6_addr(host, port, (struct sockaddr_in6 *)address) != 0)
    usage_error("no such address: '%s'", host);
}

void format_address(const struct sockaddr_storage *address,
                    char text[ADDRESS_TEXT_SIZE]) {
  char host[INET6_ADDRSTRLEN] = "";

  if (address->ss_family == AF_INET6) {
    const struct sockaddr_in6 *ip6 = (const struct sockaddr_in6 *)address;
    uv_ip6_name(ip6, host, sizeof(host));
    snprintf(text, ADDRESS_TEXT_SIZE, "[%s]:%u", host, ntohs(ip6->sin6_port));
  } else {
    const struct sockaddr_in *ip4 = (const struct sockaddr_in *)address;
    uv_ip4_name(ip4, host, sizeof(host));
    snprintf(text, ADDRESS_TEXT_SIZE, "%s:%u", host, ntohs(ip4->sin_port));
  }
}

int listen_at(uv_tcp_t *listener, const char *host, uint16_t port, int backlog,
              uv_connection_cb cb, char text[ADDRESS_TEXT_SIZE]) {
  struct sockaddr_storage address;
  int size = sizeof(address);

  parse_address(host, port, &address);
  format_address(&address, text);
  int error = uv_tcp_bind(listener, (struct sockaddr *)&address, 0);
  if (error == 0)
    error = uv_listen((uv_stream_t *)listener, backlog, cb);
  if (error != 0) {
    complain("cannot listen on %s: %s", text, uv_strerror(error));
    return error;
  }
  /* Port 0 has become a real one. */
  uv_tcp_getsockname(listener, (struct sockaddr *)&address, &size);
  format_address(&address, text);
  return 0;
}

static uint64_t raise_descriptor_limit(void) {
  struct rlimit limit;

  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 0;
  limit.rlim_cur = limit.rlim_max;
  /* Some systems have a lower limit than the one they report; then the soft
   * limit stays, which is true. */
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

uint64_t need_descriptors(uint64_t least) {
  uint64_t limit = raise_descriptor_limit();

  if (limit < least) {
    complain("%" PRIu64 " descriptors (ulimit -n) are too few, %" PRIu64
             " are needed",
             limit, least);
    exit(EXIT_FAILURE);
  }
  return limit;
}

/* libuv aborts if it has to close one of the first three: a file that it opens
 * must not take the place of a stdout that was closed. */
static void fill_standard_descriptors(void) {
  int descriptor;

  do
    descriptor = open("/dev/null", O_RDONLY);
  while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  close(descriptor);
}

void open_loop(uv_loop_t *loop, end_signals_t *signals, uv_signal_cb cb,
               void *data) {
  int error;

  fill_standard_descriptors();
  if ((error = uv_loop_init(loop)) != 0 ||
      (error = uv_signal_init(loop, &signals->interrupt)) != 0 ||
      (error = uv_signal_init(loop, &signals->terminate)) != 0 ||
      (error = uv_signal_start(&signals->interrupt, cb, SIGINT)) != 0 ||
      (error = uv_signal_start(&signals->terminate, cb, SIGTERM)) != 0) {
    complain("cannot start: %s", uv_strerror(error));
    exit(EXIT_FAILURE);
  }
  signals->interrupt.data = data;
  signals->terminate.data = data;
}

void close_end_signals(end_signals_t *signals) {
  uv_close((uv_handle_t *)&signals->interrupt, NULL);
  uv_close((uv_handle_t *)&signals->terminate, NULL);
}

void run_to_end(uv_loop_t *loop) {
  uv_run(loop, UV_RUN_DEFAULT);
  if (uv_loop_close(loop) == 0)
    return;
  complain("handles were left open:");
  uv_print_all_handles(loop, stderr);
  exit(EXIT_FAILURE);
}

int is_spare_descriptor(uv_os_fd_t descriptor, uint64_t limit) {
  return (uint64_t)descriptor + DESCRIPTORS_KEPT >= limit;
}

/* The lowest descriptor that is free: all below it are in use. */
uint64_t most_connections(uint64_t wanted, uint64_t limit) {
  int lowest = dup(STDERR_FILENO);
  uint64_t used = DESCRIPTORS_KEPT + DESCRIPTORS_TO_COME;

  if (lowest >= 0) {
    used += (uint64_t)lowest;
    close(lowest);
  }
  limit = limit > used ? limit - used : 1;
  return wanted == 0 || wanted > limit ? limit : wanted;
}
