/* SPDX-License-Identifier: MIT */

#include "http-request.h"

#include <limits.h>
#include <string.h>

#include <strings.h>

static void
append(http_text_t *text, const char *bytes, size_t length)
{
  if (length >= sizeof(text->bytes) - text->length) {
    text->is_too_long = 1;
    return;
  }
  memcpy(text->bytes + text->length, bytes, length);
  text->length += length;
  text->bytes[text->length] = '\0';
}

static int
on_url(http_parser *parser, const char *bytes, size_t length)
{
  http_request_t *request = parser->data;

  append(&request->target, bytes, length);
  return 0;
}

static int
on_header_field(http_parser *parser, const char *bytes, size_t length)
{
  http_request_t *request = parser->data;

  if (request->in_value)
    memset(&request->field, 0, sizeof(request->field));
  request->in_value = 0;
  append(&request->field, bytes, length);
  return 0;
}

/* A second Host field is appended to the first: such a host is allowed by
 * nobody. */
static int
on_header_value(http_parser *parser, const char *bytes, size_t length)
{
  http_request_t *request = parser->data;

  request->in_value = 1;
  if (strcasecmp(request->field.bytes, "host") == 0)
    append(&request->host, bytes, length);
  return 0;
}

/* No body is wanted, and no second request: nothing more is parsed. */
static int
on_headers_complete(http_parser *parser)
{
  http_request_t *request = parser->data;

  request->is_complete = 1;
  http_parser_pause(parser, 1);
  return 0;
}

void
http_request_init(http_request_t *request)
{
  memset(request, 0, sizeof(*request));
  http_parser_init(&request->parser, HTTP_REQUEST);
  http_parser_set_max_header_size(HTTP_MAX_HEADER);
  request->parser.data = request;
}

static int
has_body(const http_parser *parser)
{
  return (parser->flags & F_CHUNKED) != 0 ||
         (parser->content_length != 0 && parser->content_length != ULLONG_MAX);
}

static int
judge(const http_request_t *request)
{
  unsigned method = request->parser.method;

  if (method != HTTP_GET && method != HTTP_HEAD)
    return HTTP_STATUS_METHOD_NOT_ALLOWED;
  if (has_body(&request->parser))
    return HTTP_STATUS_PAYLOAD_TOO_LARGE;
  if (request->target.is_too_long)
    return HTTP_STATUS_URI_TOO_LONG;
  if (request->host.length == 0 || request->host.is_too_long)
    return HTTP_STATUS_BAD_REQUEST;
  return HTTP_STATUS_OK;
}

int
http_request_read(http_request_t *request, const char *bytes, size_t length)
{
  static const http_parser_settings settings = {
      .on_url = on_url,
      .on_header_field = on_header_field,
      .on_header_value = on_header_value,
      .on_headers_complete = on_headers_complete,
  };

  request->is_begun = 1;
  http_parser_execute(&request->parser, &settings, bytes, length);
  if (request->is_complete)
    return judge(request);
  switch (HTTP_PARSER_ERRNO(&request->parser)) {
  case HPE_OK:
    return 0;
  case HPE_HEADER_OVERFLOW:
    return HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE;
  default:
    return HTTP_STATUS_BAD_REQUEST;
  }
}

int
http_request_is_for(const http_request_t *request, const char *path)
{
  const http_text_t *target = &request->target;
  struct http_parser_url url;

  http_parser_url_init(&url);
  return http_parser_parse_url(target->bytes, target->length, 0, &url) == 0 &&
         url.field_data[UF_PATH].len == strlen(path) &&
         memcmp(target->bytes + url.field_data[UF_PATH].off, path,
                strlen(path)) == 0;
}

int
http_request_names_host(const http_request_t *request, const char *host)
{
  size_t length = strlen(host);
  char end = request->host.bytes[length];

  return strncasecmp(request->host.bytes, host, length) == 0 &&
         (end == '\0' || end == ':');
}
