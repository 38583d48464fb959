/* SPDX-License-Identifier: MIT */

#include "request.h"

#include <stdlib.h>
#include <string.h>

#include <strings.h>

/* ---- What the parser finds ----------------------------------------------- */

static int on_message_begin(http_parser *parser) {
  request_t *request = parser->data;

  request->part = REQUEST_HEAD;
  request->target[0] = request->field[0] = '\0';
  request->waits = 0;
  return 0;
}

static void append(char *text, size_t size, const char *at, size_t length) {
  size_t had = strlen(text), room = size - 1 - had;

  memcpy(text + had, at, length < room ? length : room);
  text[had + (length < room ? length : room)] = '\0';
}

static int on_url(http_parser *parser, const char *at, size_t length) {
  request_t *request = parser->data;

  append(request->target, sizeof(request->target), at, length);
  return 0;
}

static int on_field(http_parser *parser, const char *at, size_t length) {
  request_t *request = parser->data;

  append(request->field, sizeof(request->field), at, length);
  return 0;
}

/* There is one expectation, 100-continue, and HTTP/1.0 does not have it. */
static int on_value(http_parser *parser, const char *at, size_t length) {
  request_t *request = parser->data;

  (void)at, (void)length;
  if (strcasecmp(request->field, "expect") == 0 && parser->http_minor > 0)
    request->waits = 1;
  request->field[0] = '\0';
  return 0;
}

static int on_headers_complete(http_parser *parser) {
  request_t *request = parser->data;

  request->part = REQUEST_BODY;
  request->is_head = parser->method == HTTP_HEAD;
  return 0;
}

static int on_body(http_parser *parser, const char *at, size_t length) {
  (void)at;
  ((request_t *)parser->data)->came += length;
  return 0;
}

/* ---- The two parsers ------------------------------------------------------
 *
 * Both are paused at the end of a request, and then say where that is. */

static int on_message_complete(http_parser *parser);

#ifdef HAS_LLHTTP
#define PAUSE(parser) HPE_PAUSED
#define http_should_keep_alive llhttp_should_keep_alive
typedef llhttp_settings_t http_parser_settings;
#else
#define PAUSE(parser) (http_parser_pause(parser, 1), 0)
#endif

static const http_parser_settings settings = {
    .on_message_begin = on_message_begin,
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

static int on_message_complete(http_parser *parser) {
  request_t *request = parser->data;

  request->part = REQUEST_WHOLE;
  request->whole++;
  request->keeps = http_should_keep_alive(parser);
  return PAUSE(parser);
}

/* How many bytes were parsed. Who asks for another protocol gets this one. */
#ifdef HAS_LLHTTP
static size_t parse(request_t *request, const char *bytes, size_t length) {
  const char *at = bytes;
  llhttp_errno_t error;

  while ((error = llhttp_execute(&request->parser, at,
                                 length - (size_t)(at - bytes))) ==
         HPE_PAUSED_UPGRADE) {
    at = llhttp_get_error_pos(&request->parser);
    llhttp_resume_after_upgrade(&request->parser);
  }
  if (error == HPE_OK)
    return length;
  at = llhttp_get_error_pos(&request->parser);
  if (error == HPE_PAUSED)
    llhttp_resume(&request->parser);
  else
    request->part = REQUEST_SENSELESS;
  return (size_t)(at - bytes);
}
#else
static size_t parse(request_t *request, const char *bytes, size_t length) {
  size_t parsed =
      http_parser_execute(&request->parser, &settings, bytes, length);

  if (HTTP_PARSER_ERRNO(&request->parser) == HPE_PAUSED)
    http_parser_pause(&request->parser, 0);
  else if (HTTP_PARSER_ERRNO(&request->parser) != HPE_OK)
    request->part = REQUEST_SENSELESS;
  return parsed;
}
#endif

/* ---- Requests ------------------------------------------------------------ */

void request_init(request_t *request) {
  *request = (request_t){.keeps = 1};
#ifdef HAS_LLHTTP
  llhttp_init(&request->parser, HTTP_REQUEST, &settings);
#else
  http_parser_init(&request->parser, HTTP_REQUEST);
#endif
  request->parser.data = request;
}

void request_free(request_t *request) {
  free(request->rest);
  request->rest = NULL;
}

static void keep_rest(request_t *request, const char *bytes, size_t length) {
  request->rest = malloc(length);
  request->rest_at = 0;
  request->rest_length = length;
  if (request->rest != NULL)
    memcpy(request->rest, bytes, length);
  else
    request->keeps = 0;
}

void request_parse(request_t *request, const char *bytes, size_t length) {
  request->came = 0;
  size_t parsed = parse(request, bytes, length);
  if (request->part == REQUEST_SENSELESS)
    request->keeps = 0;
  else if (parsed < length)
    keep_rest(request, bytes + parsed, length - parsed);
}

void request_next(request_t *request) {
  request->part = REQUEST_NOTHING;
  request->came = 0;
  if (request->rest == NULL)
    return;
  request->rest_at += parse(request, request->rest + request->rest_at,
                            request->rest_length - request->rest_at);
  if (request->part == REQUEST_SENSELESS)
    request->keeps = 0;
  else if (request->rest_at == request->rest_length)
    request_free(request);
}

int request_asks(const request_t *request, const char *path, uint64_t most,
                 uint64_t *number) {
  size_t length = strlen(path);

  if (strncmp(request->target, path, length) != 0)
    return 0;
  *number = strtoull(request->target + length, NULL, 10);
  if (*number > most)
    *number = most;
  return 1;
}
