/* SPDX-License-Identifier: MIT */

/* Runs the example programs as users do, and talks to them. Whatever goes
 * wrong fails the running test; what it leaves behind is killed by check, with
 * the process group of the test. */

#ifndef PROGRAMS_H
#define PROGRAMS_H

#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#define OUTPUT_SIZE 65536
#define MAX_ARGUMENTS 24

typedef struct program_s {
  pid_t pid;
  int out; /* reads what it writes to stdout */
  int err; /* and to stderr                  */
} program_t;

/* What a program has done. */
typedef struct result_s {
  int status; /* as a shell sees it: 128 + n for signal n */
  char out[OUTPUT_SIZE];
  char err[OUTPUT_SIZE];
} result_t;

/* How to start programs from here on. 0: as many descriptors as the test. */
extern unsigned descriptor_limit;

/* Whether they cannot write to stdout. */
extern int stdout_is_full;

/* What printf makes of it, until the next call but three. */
const char *text_of(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Without uthash or Linux some programs are not built. */
int is_built(const char *variable);

/* Starts the program named by this environment variable, with the words of the
 * command line as its arguments. */
program_t start_program(const char *variable, const char *command_line);

/* As read, also if the test is stopped meanwhile and goes on. */
ssize_t receive(int descriptor, void *bytes, size_t length);

/* Reads one line, without its end, of what a program writes. Returns 0 if
 * there is no more. */
int read_line(int descriptor, char *line, size_t size);

/* Reads lines until one has this. */
void await_line(int descriptor, const char *part);

/* Reads all that comes, then closes. The text has OUTPUT_SIZE bytes. */
void read_all(int descriptor, char *text);

/* Reads all that it (and whatever it has started) still writes, then waits for
 * its end. Returns only when none of them holds stdout or stderr any more. */
void finish(const program_t *program, result_t *result);

/* Sends the signal first. */
void stop(const program_t *program, int signal, result_t *result);

/* Starts and finishes. */
void run_program(const char *variable, const char *command_line,
                 result_t *result);

/* Starts a server, and waits until it has told on which port it listens. */
program_t start_listening(const char *variable, const char *command_line,
                          uint16_t *port);

/* Fails unless the program ended with this status and exactly one line on
 * stderr, in which the text occurs. */
void assert_complaint(const result_t *result, int status, const char *text);

/* The text has all of these parts, of which the last is followed by NULL. */
void assert_has(const char *text, const char *const *parts);

/* The program was stopped, and had nothing to complain of. */
void stop_well(const program_t *program, int signal, result_t *result);

/* What the last line "key=value ..." that has this key says. */
uint64_t number_of(const char *output, const char *key);

/* By a clock that does not step. */
int64_t now_ns(void);

/* ---- Sockets; all calls give up after some seconds ---------------------- */

int connect_to(uint16_t port);

/* A listening socket on a free port. */
int listen_on(uint16_t *port);

/* A port on which nobody listens, for SOCK_STREAM or SOCK_DGRAM, and which
 * nobody else gets. */
uint16_t closed_port(int type);

/* The next connection to it. */
int accept_from(int listener);

void send_all(int connection, const void *bytes, size_t length);

/* Connects to a live page, and sends this. */
#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"
int ask_page(uint16_t port, const char *request);

/* Fails unless exactly these bytes come next. */
void expect(int connection, const void *bytes, size_t length);

/* Sends a word. Does it come back, or does the peer close? */
int is_echoed(int connection);
void assert_echo(int connection);

/* Reads until the peer closes. Returns how many bytes came before. */
size_t read_to_end(int connection);

/* Sends zeros until nothing more is taken, and returns how many were. A server
 * that reads on although its answers are not read would take all of them. */
size_t send_until_stuck(int connection);

/* Closes so that the peer sees a reset. */
void reset(int connection);

/* A datagram socket that speaks with this port alone. */
int speak_to(uint16_t port);

/* One on a free port, which hears everyone. */
int hear_on(uint16_t *port);

#endif /* PROGRAMS_H */
