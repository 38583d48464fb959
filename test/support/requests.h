/* SPDX-License-Identifier: MIT */

/* What the tests of the mailbox share: the wheel of support.h with its mailbox
 * open, and requests that record how they are called back. */

#ifndef REQUESTS_H
#define REQUESTS_H

#include "support.h"

/* Opens the wheel and its mailbox. */
void open_mailbox(const uvwheel_options_t *options);

typedef struct request_s request_t;

struct request_s {
  uvwheel_post_t post;
  test_timer_t
      *timer;  /* what its callback starts, for 50 ms; NULL for nothing */
  int started; /* what that start returned                              */
  unsigned called;
  unsigned place; /* among all that were called back, from 0 on            */
  int status;
  void (*then)(request_t *); /* what the callback does; NULL for nothing    */
};

#define REQUESTS 10
extern request_t requests[REQUESTS];

/* A test case of support.h whose every test begins with these requests as
 * zeros.
 */
TCase *requests_tcase(Suite *suite, const char *name);

/* How many were called back in all. */
extern unsigned called_in_all;

/* The callback of all requests. */
void on_request(uvwheel_post_t *post, int status);

/* Posts it, in memory full of garbage, which must succeed. */
void send_request(request_t *request, test_timer_t *timer);

/* Sends that many requests, each of which starts its timer. */
void send_all(request_t *first, test_timer_t *timers, size_t count);

/* The request was called back once, with the status, at the place. */
void expect_called(const request_t *request, int status, unsigned place);

#endif /* REQUESTS_H */
