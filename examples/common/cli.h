/* SPDX-License-Identifier: MIT */

/* Shared by the example programs, beside their real work: complaints,
 * addresses, descriptors, a loop that signals end. */

#ifndef EXAMPLES_CLI_H
#define EXAMPLES_CLI_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <uv.h>

#define EXIT_USAGE 2 /* the command line is wrong; EXIT_FAILURE: the rest */

/* The defaults that server and client must agree on. */
#define DEFAULT_HOST "127.0.0.1"
#define DEFAULT_PORT 7007
#define DEFAULT_TIMEOUT_MS 5000
#define MAX_TIMEOUT_MS (UINT64_C(1) << 40) /* 34 years */
#define MAX_SECONDS 1000000

/* Each program defines its name, with which all its complaints begin. */
extern const char *const program;

/* One line on stderr, formatted as by printf; those of threads do not mix. */
#define complain(...)                                             \
  (flockfile(stderr), (void)fprintf(stderr, "%s: ", program),     \
   (void)fprintf(stderr, __VA_ARGS__), (void)fputc('\n', stderr), \
   funlockfile(stderr))

/* The same, then the end: the command line is wrong. */
#define usage_error(...) (complain(__VA_ARGS__), exit(EXIT_USAGE))

/* One line on stdout, at once, formatted as by printf, for a reader that waits
 * for it. If it cannot be written the program ends after a complaint. */
void announce(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line of a server's log on stdout. The server waits for nobody who reads
 * that, and does not end with him: a line that cannot be written at once is
 * lost. Returns how many are lost so far. For one thread. */
uint64_t log_line(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* An address of IPv4 or IPv6, or a usage error. */
void parse_address(const char *host, uint16_t port,
                   struct sockaddr_storage *address);

/* "127.0.0.1:7007" or "[::1]:7007". */
#define ADDRESS_TEXT_SIZE (INET6_ADDRSTRLEN + 8)
void format_address(const struct sockaddr_storage *address,
                    char text[ADDRESS_TEXT_SIZE]);

/* Listens, and stores where. Returns 0, or a UV_E* code after a complaint. */
int listen_at(uv_tcp_t *listener, const char *host, uint16_t port, int backlog,
              uv_connection_cb cb, char text[ADDRESS_TEXT_SIZE]);

/* Raises the limit of open descriptors as far as it goes; returns it. If it is
 * less the program ends after a complaint. */
uint64_t need_descriptors(uint64_t least);

/* Makes a loop on which SIGINT and SIGTERM call cb. If that fails the program
 * ends after a complaint. */
typedef struct end_signals_s {
  uv_signal_t interrupt;
  uv_signal_t terminate;
} end_signals_t;
void open_loop(uv_loop_t *loop, end_signals_t *signals, uv_signal_cb cb,
               void *data);
void close_end_signals(end_signals_t *signals);

/* Runs the loop until all its handles are closed, and closes it. The program
 * ends after a complaint if some are left open. */
void run_to_end(uv_loop_t *loop);

/* Are so few descriptors left that a server should keep them for what is not a
 * connection? The kernel always gives the lowest free number, so the number of
 * a new connection shows it. Waiting for accept() to fail would not do: libuv
 * answers that by closing the newcomers silently. */
int is_spare_descriptor(uv_os_fd_t descriptor, uint64_t limit);

/* As many connections as are wanted (0: no limit), but no more than a server
 * that has opened little so far can have before that is the case. */
uint64_t most_connections(uint64_t wanted, uint64_t limit);

#endif /* EXAMPLES_CLI_H */
