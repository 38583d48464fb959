/* SPDX-License-Identifier: MIT */

/* Timeouts that are cancelled by a key.
 *
 * Code that cancels a timeout often has no pointer to the timer: an answer
 * arrives and carries the number of its request. So the timer is part of a
 * struct that is an item of a hash table (uthash, which embeds its links as
 * uvwheel does). Whichever comes first, the answer or the timeout, takes the
 * struct out of the table and out of the wheel, and frees it; the other one
 * then finds nothing. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <uthash.h>
#include <uvwheel.h>

typedef struct request_s {
  uint64_t id; /* the key */
  uvwheel_timer_t timeout;
  UT_hash_handle hh; /* makes it an item */
} request_t;

static uv_loop_t loop;
static uvwheel_t wheel;
static uint64_t start_ms;
static request_t *requests; /* the table; NULL is an empty one */

static void
say(uint64_t id, const char *what)
{
  printf("%4" PRIu64 " ms: request %" PRIu64 ": %s\n", uv_now(&loop) - start_ms,
         id, what);
}

/* Closing the timer is harmless when it has just fired. */
static void
forget(request_t *request)
{
  HASH_DEL(requests, request);
  uvwheel_timer_close(&request->timeout);
  free(request);
}

static void
on_timeout(uvwheel_timer_t *timer)
{
  request_t *request = timer->data;

  say(request->id, "timed out");
  forget(request);
}

static void
await(uint64_t id, uint64_t timeout_ms)
{
  request_t *request = malloc(sizeof(*request));

  if (request == NULL)
    abort();
  request->id = id;
  request->timeout.data = request;
  HASH_ADD(hh, requests, id, sizeof(request->id), request);
  uvwheel_timer_init(&wheel, &request->timeout);
  uvwheel_timer_start(&request->timeout, on_timeout, timeout_ms, 0);
}

static void
cancel(uint64_t id)
{
  request_t *request;

  HASH_FIND(hh, requests, &id, sizeof(id), request);
  if (request == NULL) {
    say(id, "answered too late, or never asked");
    return;
  }
  say(id, "answered");
  forget(request);
}

/* The network's part: at 500 ms these answers arrive. */
static void
on_answers(uvwheel_timer_t *timer)
{
  (void)timer;
  cancel(1);
  cancel(3);
}

int
main(void)
{
  uvwheel_timer_t answers;
  uvwheel_options_t options = {.tick_ms = 10};

  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, &options) != 0)
    return EXIT_FAILURE;
  start_ms = uv_now(&loop);
  await(1, 1000);
  await(2, 1000);
  await(3, 200);
  uvwheel_timer_init(&wheel, &answers);
  uvwheel_timer_start(&answers, on_answers, 500, 0);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active */
  printf("%u requests left\n", HASH_COUNT(requests));
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
