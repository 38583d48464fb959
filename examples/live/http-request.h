/* SPDX-License-Identifier: MIT */

/* One HTTP request, read by http_parser while it arrives. No sockets here. */

#ifndef EXAMPLES_HTTP_REQUEST_H
#define EXAMPLES_HTTP_REQUEST_H

#include <stddef.h>

#include <http_parser.h>

#define HTTP_MAX_HEADER 8192 /* the request line and all header fields */
#define HTTP_MAX_TEXT 256    /* the target; a field that is of interest */

/* Arrives in pieces. */
typedef struct http_text_s {
  size_t length;
  int is_too_long;
  char bytes[HTTP_MAX_TEXT]; /* ends with a zero */
} http_text_t;

typedef struct http_request_s {
  http_parser parser;
  http_text_t target;
  http_text_t field; /* the name of the header field that arrives */
  http_text_t host;
  int is_begun;
  int is_complete;
  int in_value;
} http_request_t;

void http_request_init(http_request_t *request);

/* Takes the next bytes. Returns 0 until the header is complete, then the status
 * of the answer: 200, or what is wrong with the request. Only GET and HEAD
 * without a body are right. */
int http_request_read(http_request_t *request, const char *bytes,
                      size_t length);

/* Is the path of a complete request this one? */
int http_request_is_for(const http_request_t *request, const char *path);

/* Does the Host field of a complete request name this host, at any port? */
int http_request_names_host(const http_request_t *request, const char *host);

#endif /* EXAMPLES_HTTP_REQUEST_H */
