/* SPDX-License-Identifier: MIT */

#include "requests.h"

request_t requests[REQUESTS];
unsigned called_in_all;

static void
setup(void)
{
  memset(requests, 0, sizeof requests);
  called_in_all = 0;
}

TCase *
requests_tcase(Suite *suite, const char *name)
{
  TCase *tcase = loop_tcase(suite, name);

  tcase_add_checked_fixture(tcase, setup, NULL);
  return tcase;
}

void
open_mailbox(const uvwheel_options_t *options)
{
  open_wheel_with(options);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
}

void
on_request(uvwheel_post_t *post, int status)
{
  request_t *request = post->data;

  ck_assert_ptr_eq(post, &request->post);
  if (request->timer != NULL) {
    request->started =
        uvwheel_timer_start(&request->timer->base, on_test_timer, 50, 0);
    request->timer->due_ms = uvwheel_now(&wheel) + 50;
  }
  request->place = called_in_all++;
  request->called++;
  request->status = status;
  if (request->then != NULL)
    request->then(request);
}

void
send_request(request_t *request, test_timer_t *timer)
{
  request->timer = timer;
  memset(&request->post, 0xA5, sizeof request->post);
  request->post.data = request;
  ck_assert_int_eq(uvwheel_post(&wheel, &request->post, on_request), 0);
}

void
send_all(request_t *first, test_timer_t *timers, size_t count)
{
  size_t i;

  for (i = 0; i < count; i++)
    send_request(&first[i], &timers[i]);
}

void
expect_called(const request_t *request, int status, unsigned place)
{
  ck_assert_uint_eq(request->called, 1);
  ck_assert_int_eq(request->status, status);
  ck_assert_uint_eq(request->place, place);
}
