/* SPDX-License-Identifier: MIT */

/* The requests of a connection, one after the other, as their bytes come. This
 * knows no socket and no time. llhttp took the place of http_parser, and has
 * the same callbacks. */

#ifndef EXAMPLES_REQUEST_H
#define EXAMPLES_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#ifdef HAS_LLHTTP
#include <llhttp.h>
typedef llhttp_t http_parser;
#else
#include <http_parser.h>
#endif

/* What has come of a request. */
typedef enum {
  REQUEST_NOTHING,
  REQUEST_HEAD, /* not yet all of it */
  REQUEST_BODY, /* the head, and not yet all of the body */
  REQUEST_WHOLE,
  REQUEST_SENSELESS
} request_part_t;

typedef struct request_s {
  request_part_t part;
  char target[64]; /* as much of it as there is room for */
  int is_head;     /* HEAD: the answer has no body */
  int waits;       /* for "100 Continue" before it sends its body */
  int keeps;       /* another one may follow */
  size_t came;     /* of its body, just now */
  uint64_t whole;  /* how many have come as a whole */
  /* private */
  char field[8]; /* as much of a name as tells "Expect" from all others */
  char *rest;    /* what has come behind it, parsed up to rest_at */
  size_t rest_at, rest_length;
  http_parser parser;
} request_t;

void request_init(request_t *request);

/* Goes on with what has come, up to the end of the request. What comes behind
 * that is kept; without memory for it no request may follow. */
void request_parse(request_t *request, const char *bytes, size_t length);

/* The next one, after a whole one: goes on with what was kept. */
void request_next(request_t *request);

/* Does its target begin with this path? *number is what follows that, or
 * `most`: what a peer names has a limit, also -1, which is a large number. */
int request_asks(const request_t *request, const char *path, uint64_t most,
                 uint64_t *number);

void request_free(request_t *request);

#endif /* EXAMPLES_REQUEST_H */
