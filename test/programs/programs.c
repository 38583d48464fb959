/* SPDX-License-Identifier: MIT */

#include "programs.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

unsigned descriptor_limit;
int stdout_is_full;

/* ---- Programs ---------------------------------------------------------- */

const char *
text_of(const char *format, ...)
{
  static char texts[4][1024];
  static unsigned next;
  char *text = texts[next++ % 4];
  va_list arguments;

  va_start(arguments, format);
  int length = vsnprintf(text, sizeof(texts[0]), format, arguments);
  va_end(arguments);
  ck_assert_int_lt(length, (int)sizeof(texts[0]));
  return text;
}

int
is_built(const char *variable)
{
  return getenv(variable) != NULL;
}

/* The child's side of start_program. */
_Noreturn static void
become(const char *path, const char *command_line, int out, int err)
{
  char words[1024];
  char *arguments[MAX_ARGUMENTS] = {(char *)(uintptr_t)path};
  struct rlimit limit = {descriptor_limit, descriptor_limit};
  char *rest = words;
  size_t count = 1;

  snprintf(words, sizeof(words), "%s", command_line);
  while (count < MAX_ARGUMENTS - 1 &&
         (arguments[count] = strtok_r(rest, " ", &rest)) != NULL)
    count++;
  dup2(stdout_is_full ? open("/dev/full", O_WRONLY) : out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  close(out);
  close(err);
  if (descriptor_limit != 0)
    setrlimit(RLIMIT_NOFILE, &limit);
  execv(path, arguments);
  _exit(127);
}

program_t
start_program(const char *variable, const char *command_line)
{
  const char *path = getenv(variable);
  int out[2], err[2];

  ck_assert_msg(path != NULL, "%s names no program", variable);
  ck_assert_int_eq(pipe(out), 0);
  ck_assert_int_eq(pipe(err), 0);
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    close(out[0]);
    close(err[0]);
    become(path, command_line, out[1], err[1]);
  }
  close(out[1]);
  close(err[1]);
  return (program_t){pid, out[0], err[0]};
}

ssize_t
receive(int descriptor, void *bytes, size_t length)
{
  ssize_t received;

  do
    received = read(descriptor, bytes, length);
  while (received < 0 && errno == EINTR);
  return received;
}

int
read_line(int descriptor, char *line, size_t size)
{
  size_t length = 0;
  ssize_t more;

  while ((more = receive(descriptor, line + length, 1)) > 0 &&
         line[length] != '\n') {
    length++;
    ck_assert_uint_lt(length, size);
  }
  line[length] = '\0';
  return more > 0 || length > 0;
}

void
await_line(int descriptor, const char *part)
{
  static char line[OUTPUT_SIZE];

  do
    ck_assert_msg(read_line(descriptor, line, sizeof(line)), "no '%s'", part);
  while (strstr(line, part) == NULL);
}

void
read_all(int descriptor, char *text)
{
  size_t length = 0;
  ssize_t more;

  while ((more = receive(descriptor, text + length, OUTPUT_SIZE - 1 - length)) >
         0)
    length += (size_t)more;
  text[length] = '\0';
  close(descriptor);
}

void
finish(const program_t *program, result_t *result)
{
  int status;

  read_all(program->out, result->out);
  read_all(program->err, result->err);
  ck_assert_int_eq(waitpid(program->pid, &status, 0), program->pid);
  result->status =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void
stop(const program_t *program, int signal, result_t *result)
{
  ck_assert_int_eq(kill(program->pid, signal), 0);
  finish(program, result);
}

void
run_program(const char *variable, const char *command_line, result_t *result)
{
  program_t program = start_program(variable, command_line);

  finish(&program, result);
}

program_t
start_listening(const char *variable, const char *command_line, uint16_t *port)
{
  static const char listening[] = "listening on 127.0.0.1:";
  char line[256];

  program_t server = start_program(variable, command_line);
  read_line(server.out, line, sizeof(line));
  ck_assert_msg(strncmp(line, listening, strlen(listening)) == 0, "%s", line);
  *port = (uint16_t)strtoul(line + strlen(listening), NULL, 10);
  return server;
}

void
stop_well(const program_t *program, int signal, result_t *result)
{
  stop(program, signal, result);
  ck_assert_str_eq(result->err, "");
  ck_assert_int_eq(result->status, 0);
}

void
assert_has(const char *text, const char *const *parts)
{
  for (; *parts != NULL; parts++)
    ck_assert_msg(strstr(text, *parts) != NULL, "no '%s' in '%s'", *parts,
                  text);
}

void
assert_complaint(const result_t *result, int status, const char *text)
{
  ck_assert_msg(strstr(result->err, text) != NULL, "no '%s' in '%s'", text,
                result->err);
  ck_assert_ptr_eq(strchr(result->err, '\n'),
                   result->err + strlen(result->err) - 1);
  ck_assert_int_eq(result->status, status);
}

uint64_t
number_of(const char *output, const char *key)
{
  const char *pattern = text_of(" %s=", key), *found = NULL;

  while ((output = strstr(output, pattern)) != NULL)
    found = output += strlen(pattern);
  ck_assert_msg(found != NULL, "no '%s'", pattern);
  return strtoull(found, NULL, 10);
}

int64_t
now_ns(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- Sockets ----------------------------------------------------------- */

static struct sockaddr_in
loopback(uint16_t port)
{
  return (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* A call that would block for longer than this has failed. */
static int
with_patience(int connection)
{
  struct timeval most = {.tv_sec = 15};

  ck_assert_int_ge(connection, 0);
  ck_assert_int_eq(
      setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)), 0);
  return connection;
}

/* The programs that are started do not inherit it. */
static int
socket_of(int type)
{
  int descriptor = socket(AF_INET, type, 0);

  ck_assert_int_eq(fcntl(descriptor, F_SETFD, FD_CLOEXEC), 0);
  return descriptor;
}

static int
connect_by(int type, uint16_t port)
{
  struct sockaddr_in address = loopback(port);
  int connection = with_patience(socket_of(type));

  ck_assert_int_eq(
      connect(connection, (struct sockaddr *)&address, sizeof(address)), 0);
  return connection;
}

int
connect_to(uint16_t port)
{
  return connect_by(SOCK_STREAM, port);
}

int
speak_to(uint16_t port)
{
  return connect_by(SOCK_DGRAM, port);
}

static int
bind_any(int type, uint16_t *port)
{
  struct sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  int descriptor = socket_of(type);

  ck_assert_int_eq(bind(descriptor, (struct sockaddr *)&address, size), 0);
  getsockname(descriptor, (struct sockaddr *)&address, &size);
  *port = ntohs(address.sin_port);
  return descriptor;
}

int
listen_on(uint16_t *port)
{
  int listener = bind_any(SOCK_STREAM, port);

  ck_assert_int_eq(listen(listener, 16), 0);
  return listener;
}

/* A datagram socket that is connected hears only that peer. */
uint16_t
closed_port(int type)
{
  struct sockaddr_in nobody = loopback(9);
  uint16_t port;
  int descriptor = bind_any(type, &port);

  if (type == SOCK_DGRAM)
    ck_assert_int_eq(
        connect(descriptor, (struct sockaddr *)&nobody, sizeof(nobody)), 0);
  return port;
}

int
accept_from(int listener)
{
  return with_patience(accept(listener, NULL, NULL));
}

void
send_all(int connection, const void *bytes, size_t length)
{
  ck_assert_int_eq(send(connection, bytes, length, MSG_NOSIGNAL),
                   (ssize_t)length);
}

int
ask_page(uint16_t port, const char *request)
{
  int connection = connect_to(port);

  send_all(connection, request, strlen(request));
  return connection;
}

void
expect(int connection, const void *bytes, size_t length)
{
  char answer[4096];
  size_t done = 0;

  while (done < length) {
    size_t left = length - done;
    ssize_t more = receive(connection, answer,
                           left < sizeof(answer) ? left : sizeof(answer));
    ck_assert_int_gt(more, 0);
    ck_assert_mem_eq(answer, (const char *)bytes + done, (size_t)more);
    done += (size_t)more;
  }
}

int
is_echoed(int connection)
{
  char answer[5];

  return send(connection, "hello", 5, MSG_NOSIGNAL) == 5 &&
         receive(connection, answer, 5) == 5 && memcmp(answer, "hello", 5) == 0;
}

void
assert_echo(int connection)
{
  ck_assert(is_echoed(connection));
}

size_t
read_to_end(int connection)
{
  static char buffer[65536];
  size_t length = 0;
  ssize_t more;

  while ((more = receive(connection, buffer, sizeof(buffer))) > 0)
    length += (size_t)more;
  ck_assert_msg(more == 0 || errno == ECONNRESET, "not closed: %s",
                strerror(errno));
  return length;
}

size_t
send_until_stuck(int connection)
{
  static const char bytes[65536];
  struct timeval patience = {.tv_usec = 100000};
  size_t taken = 0;
  ssize_t sent;

  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  while ((sent = send(connection, bytes, sizeof(bytes), MSG_NOSIGNAL)) > 0 ||
         errno == EINTR) {
    taken += sent > 0 ? (size_t)sent : 0;
    ck_assert_uint_lt(taken, 256u << 20);
  }
  ck_assert_int_eq(errno, EAGAIN);
  return taken;
}

void
reset(int connection)
{
  struct linger zero = {.l_onoff = 1, .l_linger = 0};

  ck_assert_int_eq(
      setsockopt(connection, SOL_SOCKET, SO_LINGER, &zero, sizeof(zero)), 0);
  ck_assert_int_eq(close(connection), 0);
}

int
hear_on(uint16_t *port)
{
  return with_patience(bind_any(SOCK_DGRAM, port));
}
