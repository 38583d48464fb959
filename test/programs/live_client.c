/* SPDX-License-Identifier: MIT */

#include "live_client.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <unistd.h>

#define FRAME_SIZE 16384

program_t server;
uint16_t port, http_port;
result_t result;
char answer[ANSWER_SIZE];

static char frame[FRAME_SIZE];

void
start_live(const char *options)
{
  static const char page[] = "live page: http://127.0.0.1:";
  char line[256];

  snprintf(line, sizeof(line), "--http 0 %s", options);
  server = start_server(line, &port);
  read_line(server.out, line, sizeof(line));
  ck_assert_msg(strncmp(line, page, strlen(page)) == 0, "%s", line);
  http_port = (uint16_t)strtoul(line + strlen(page), NULL, 10);
}

void
end_live(void)
{
  if (server.pid == 0)
    return;
  stop(&server, SIGTERM, &result);
  server.pid = 0;
  ck_assert_str_eq(result.err, "");
  ck_assert_int_eq(result.status, 0);
}

int
ask(const char *request)
{
  int connection = connect_to(http_port);

  send_all(connection, request, strlen(request));
  return connection;
}

unsigned long
read_answer(int connection)
{
  static const char version[] = "HTTP/1.1 ";
  size_t length = 0;
  ssize_t more;

  while ((more = recv(connection, answer + length, ANSWER_SIZE - 1 - length,
                      0)) > 0)
    length += (size_t)more;
  ck_assert_int_eq(more, 0);
  answer[length] = '\0';
  close(connection);
  ck_assert_msg(strncmp(answer, version, strlen(version)) == 0, "%s", answer);
  return strtoul(answer + strlen(version), NULL, 10);
}

const char *
body_of_answer(void)
{
  const char *body = strstr(answer, "\r\n\r\n");
  const char *length = strstr(answer, "Content-Length: ");

  ck_assert_ptr_nonnull(body);
  ck_assert_ptr_nonnull(length);
  ck_assert_uint_eq(strtoul(length + 16, NULL, 10), strlen(body + 4));
  return body + 4;
}

int
view(void)
{
  char line[1024];
  int viewer = ask(GET("/events"));

  read_line(viewer, line, sizeof(line));
  ck_assert_str_eq(line, "HTTP/1.1 200 OK\r");
  while (strcmp(line, "\r") != 0)
    read_line(viewer, line, sizeof(line));
  read_line(viewer, line, sizeof(line));
  ck_assert_str_eq(line, "event: figures");
  read_line(viewer, frame, sizeof(frame));
  ck_assert_msg(strncmp(frame, "data: [{\"name\":\"", 16) == 0, "%s", frame);
  read_line(viewer, line, sizeof(line));
  ck_assert_str_eq(line, "");
  return viewer;
}

void
read_frame(int viewer)
{
  char blank[8];

  read_line(viewer, frame, sizeof(frame));
  ck_assert_msg(strncmp(frame, "data: {", 7) == 0, "%s", frame);
  read_line(viewer, blank, sizeof(blank));
  ck_assert_str_eq(blank, "");
}

/* What follows the key in the last frame. */
static const char *
value_of(const char *key)
{
  char pattern[64];

  snprintf(pattern, sizeof(pattern), "\"%s\":", key);
  const char *found = strstr(frame, pattern);
  ck_assert_msg(found != NULL, "no %s in %s", pattern, frame);
  return found + strlen(pattern);
}

uint64_t
figure(const char *key)
{
  const char *value = value_of(key);

  return strtoull(value + (*value == '['), NULL, 10);
}

/* Of a list in the last frame, and how many numbers it has. */
static uint64_t
sum_of(const char *key, size_t *count)
{
  char *at = (char *)(uintptr_t)value_of(key);
  uint64_t sum = 0;

  *count = 0;
  ck_assert_int_eq(*at, '[');
  while (*at != ']') {
    sum += strtoull(at + 1, &at, 10);
    ck_assert(*at == ',' || *at == ']');
    ++*count;
  }
  return sum;
}

void
await_figure(int viewer, const char *key, uint64_t number)
{
  do
    read_frame(viewer);
  while (figure(key) != number);
}

size_t
await_cells(int viewer, uint64_t timers)
{
  size_t count;

  while (sum_of("cells", &count) != timers)
    read_frame(viewer);
  return count;
}
