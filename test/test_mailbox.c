/* SPDX-License-Identifier: MIT */

/* The mailbox as its loop sees it, in virtual time; test_mailbox_threads.c has
 * the threads. */

#include <stdlib.h>
#include <sys/resource.h>

#include "allocations.h"
#include "echo.h"
#include "letters.h"

static const uvwheel_options_t fine = {.tick_ms = 10, .slots = 8};

static letter_t letters[10];
static probe_t probes[10];

static void
open_with_probes(const uvwheel_options_t *options)
{
  open_mailbox(options);
  probe_init_all(probes, LENGTH(probes));
}

/* What is queued is carried out, without time going by. */
static void
turn(void)
{
  uv_run(&loop, UV_RUN_NOWAIT);
  verify_wheel();
}

/* ---- One request ----------------------------------------------------------
 */

START_TEST(a_request_does_what_the_function_of_its_name_does)
{
  open_with_probes(&fine);
  send_start(&letters[0], &probes[0], 50, 20);
  ck_assert_int_eq(uvwheel_timer_is_active(&probes[0].timer), 0);
  turn();
  expect_completed(&letters[0], 0, 0);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&probes[0].timer), 50);
  ck_assert_uint_eq(uvwheel_timer_get_repeat(&probes[0].timer), 20);
  send_refresh(&letters[1], &probes[0]);
  turn();
  expect_completed(&letters[1], 0, 1);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&probes[0].timer), 20);
  run_for(30);
  ck_assert_uint_eq(probes[0].fired, 1);
  send_stop(&letters[2], &probes[0]);
  turn();
  expect_completed(&letters[2], 0, 2);
  run_for(1000);
  ck_assert_uint_eq(probes[0].fired, 1);
}
END_TEST

START_TEST(the_timeout_counts_from_when_the_request_is_carried_out)
{
  open_with_probes(&fine);
  send_start(&letters[0], &probes[0], 50, 0);
  virtual_time_advance_ms(1000);
  turn();
  ck_assert_uint_eq(uv_now(&loop), START_MS + 1000);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&probes[0].timer), 50);
  run_for(49);
  ck_assert_uint_eq(fired_in_all, 0);
  run_for(12);
  ck_assert_uint_eq(fired_in_all, 1);
}
END_TEST

START_TEST(the_status_is_what_the_function_returned)
{
  const uvwheel_options_t options = {.tick_ms = 10, .max_timers = 1};
  static probe_t zeros;

  open_with_probes(&options);
  send_start(&letters[0], &probes[0], 50, 0);
  send_start(&letters[1], &probes[1], 50, 0);
  send_refresh(&letters[2], &probes[1]);
  send_stop(&letters[3], &probes[1]);
  send_start(&letters[4], &zeros, 50, 0);
  send_stop(&letters[5], &zeros);
  turn();
  expect_completed(&letters[0], 0, 0);
  expect_completed(&letters[1], UV_ENOBUFS, 1);
  expect_completed(&letters[2], UV_EINVAL, 2);
  expect_completed(&letters[3], 0, 3);
  expect_completed(&letters[4], UV_EINVAL, 4);
  expect_completed(&letters[5], UV_EINVAL, 5);
  ck_assert_uint_eq(uvwheel_count(&wheel), 1);
}
END_TEST

/* Without a callback it is known by a later one that a request is completed. */
START_TEST(a_request_needs_no_callback)
{
  uvwheel_post_t *post = malloc(3 * sizeof *post);

  open_with_probes(&fine);
  ck_assert_int_eq(uvwheel_post_start(&post[0], &mailbox, &probes[0].timer,
                                      on_probe, 500, 0, NULL),
                   0);
  virtual_time_advance_ms(100);
  ck_assert_int_eq(
      uvwheel_post_refresh(&post[1], &mailbox, &probes[0].timer, NULL), 0);
  ck_assert_int_eq(
      uvwheel_post_stop(&post[2], &mailbox, &probes[1].timer, NULL), 0);
  send_stop(&letters[0], &probes[2]);
  turn();
  expect_completed(&letters[0], 0, 0);
  free(post);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&probes[0].timer), 500);
  ck_assert_uint_eq(uvwheel_count(&wheel), 1);
  probes[0].due_ms = uv_now(&loop) + 500;
}
END_TEST

static void
free_all(letter_t *letter)
{
  free(letter->post.timer);
  free(letter);
}

START_TEST(request_and_timer_may_be_freed_when_a_stop_is_completed)
{
  letter_t *letter = calloc(1, sizeof *letter);
  probe_t *probe = malloc(sizeof *probe);

  open_with_probes(&fine);
  probe_init(probe);
  send_start(&letters[0], probe, 50, 0);
  letter->then = free_all;
  send_stop(letter, probe);
  turn();
  ck_assert_uint_eq(completed_in_all, 2);
  run_for(100);
}
END_TEST

START_TEST(bad_input_is_refused_and_changes_nothing)
{
  uvwheel_post_t post;
  uvwheel_timer_t *timer = &probes[0].timer;
  uvwheel_mailbox_t other;
  static uvwheel_t zeros;

  open_with_probes(&fine);
  ck_assert_int_eq(uvwheel_mailbox_init(NULL, &other), UV_EINVAL);
  ck_assert_int_eq(uvwheel_mailbox_init(&zeros, &other), UV_EINVAL);
  ck_assert_int_eq(uvwheel_mailbox_init(&wheel, NULL), UV_EINVAL);
  ck_assert_int_eq(uvwheel_mailbox_init(&wheel, &other), UV_EALREADY);
  ck_assert_int_eq(
      uvwheel_post_start(NULL, &mailbox, timer, on_probe, 1, 0, NULL),
      UV_EINVAL);
  ck_assert_int_eq(uvwheel_post_start(&post, NULL, timer, on_probe, 1, 0, NULL),
                   UV_EINVAL);
  ck_assert_int_eq(
      uvwheel_post_start(&post, &mailbox, NULL, on_probe, 1, 0, NULL),
      UV_EINVAL);
  ck_assert_int_eq(uvwheel_post_start(&post, &mailbox, timer, NULL, 1, 0, NULL),
                   UV_EINVAL);
  ck_assert_int_eq(uvwheel_post_refresh(NULL, &mailbox, timer, NULL),
                   UV_EINVAL);
  ck_assert_int_eq(uvwheel_post_refresh(&post, NULL, timer, NULL), UV_EINVAL);
  ck_assert_int_eq(uvwheel_post_stop(&post, &mailbox, NULL, NULL), UV_EINVAL);
  turn();
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
  ck_assert_uint_eq(handle_count(), 2);
}
END_TEST

/* libuv makes what wakes a loop with the loop itself, and anew if it is gone.
 */
START_TEST(a_mailbox_that_libuv_refuses_leaves_the_wheel_without)
{
  struct rlimit before, none;
  int fd = loop.async_io_watcher.fd;

  open_wheel(10, 8);
  ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
  none = before;
  none.rlim_cur = 0;
  loop.async_io_watcher.fd = -1;
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
  ck_assert_int_eq(uvwheel_mailbox_init(&wheel, &mailbox), UV_EMFILE);
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
  loop.async_io_watcher.fd = fd;
  ck_assert_int_eq(uvwheel_mailbox_init(&wheel, &mailbox), 0);
  ck_assert_uint_eq(handle_count(), 2);
}
END_TEST

/* ---- Many requests --------------------------------------------------------
 */

START_TEST(requests_are_carried_out_in_their_order)
{
  size_t i;

  open_with_probes(&fine);
  for (i = 0; i < LENGTH(letters); i++)
    if (i % 2 == 0)
      send_start(&letters[i], &probes[0], 10 * i, 0);
    else
      send_stop(&letters[i], &probes[0]);
  turn();
  for (i = 0; i < LENGTH(letters); i++)
    expect_completed(&letters[i], 0, (unsigned)i);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
}
END_TEST

/* Without any of check's assertions in between, which allocate. */
START_TEST(requests_allocate_nothing)
{
  static uvwheel_post_t posts[LENGTH(probes)];
  uint64_t before, after;
  size_t i;

  open_with_probes(&fine);
  before = allocations();
  for (i = 0; i < LENGTH(probes); i++)
    (void)uvwheel_post_start(&posts[i], &mailbox, &probes[i].timer, on_probe,
                             50, 0, NULL);
  uv_run(&loop, UV_RUN_NOWAIT);
  after = allocations();
  ck_assert_uint_eq(after, before);
  ck_assert_uint_eq(uvwheel_count(&wheel), LENGTH(probes));
}
END_TEST

static void
send_again(letter_t *letter)
{
  if (letter->completed < 20)
    send_start(letter, (probe_t *)letter->post.timer, 50, 0);
}

/* Also with no limit on how much a turn does. */
START_TEST(what_is_posted_when_a_request_is_completed_follows_in_the_next_turn)
{
  const uvwheel_options_t options = {.turn_budget = UINT32_MAX};
  unsigned i;

  open_with_probes(&options);
  for (i = 0; i < 2; i++) {
    letters[i].then = send_again;
    send_start(&letters[i], &probes[i], 50, 0);
  }
  for (i = 1; i <= 20; i++) {
    turn();
    ck_assert_uint_eq(completed_in_all, 2 * i);
    ck_assert_uint_eq(letters[0].place, 2 * i - 2);
    ck_assert_uint_eq(letters[1].place, 2 * i - 1);
  }
  turn();
  ck_assert_uint_eq(completed_in_all, 40);
}
END_TEST

static void
send_stop_to_next(probe_t *probe)
{
  send_stop(&letters[0], probe + 1);
}

START_TEST(a_timer_s_callback_may_post)
{
  open_with_probes(&fine);
  probes[0].then = send_stop_to_next;
  probe_start(&probes[0], 50, 0);
  probe_start(&probes[1], 500, 0);
  run_for(100);
  expect_completed(&letters[0], 0, 0);
  ck_assert_int_eq(uvwheel_timer_is_active(&probes[1].timer), 0);
}
END_TEST

/* At most three a turn, the rest in their order, those that are posted between
 * after them; and sockets get their turn. */
START_TEST(a_turn_keeps_to_its_budget)
{
  const uvwheel_options_t options = {.tick_ms = 10, .turn_budget = 3};
  static echo_t echo;
  unsigned i;

  open_with_probes(&options);
  echo_open(&echo, &loop);
  send_all(letters, probes, 8);
  echo_ping(&echo);
  turn();
  ck_assert_uint_eq(completed_in_all, 3);
  send_all(&letters[8], &probes[8], 2);
  turn();
  ck_assert_uint_eq(completed_in_all, 6);
  ck_assert_uint_eq(echo.pongs, 1);
  turn();
  ck_assert_uint_eq(completed_in_all, 9);
  turn();
  for (i = 0; i < LENGTH(letters); i++)
    expect_completed(&letters[i], 0, i);
  echo_close(&echo);
}
END_TEST

START_TEST(a_budget_that_is_just_enough_needs_no_other_turn)
{
  const uvwheel_options_t options = {.tick_ms = 10, .turn_budget = 3};
  uint64_t sleeps;

  open_with_probes(&options);
  send_all(letters, probes, 3);
  turn();
  ck_assert_uint_eq(completed_in_all, 3);
  sleeps = virtual_time_sleeps();
  run_for(5);
  ck_assert_uint_eq(virtual_time_sleeps(), sleeps + 1);
}
END_TEST

/* ---- What keeps the loop alive --------------------------------------------
 */

START_TEST(a_mailbox_keeps_the_loop_alive_unless_the_wheel_is_unref_d)
{
  open_mailbox(&fine);
  ck_assert(uv_loop_alive(&loop));
  uvwheel_unref(&wheel);
  ck_assert(!uv_loop_alive(&loop));
  uvwheel_ref(&wheel);
  ck_assert(uv_loop_alive(&loop));
  uvwheel_unref(&wheel);
}
END_TEST

START_TEST(a_mailbox_of_an_unref_d_wheel_keeps_no_loop_alive)
{
  open_wheel(10, 8);
  uvwheel_unref(&wheel);
  ck_assert_int_eq(uvwheel_mailbox_init(&wheel, &mailbox), 0);
  ck_assert(!uv_loop_alive(&loop));
  probe_init_all(probes, 1);
  send_start(&letters[0], &probes[0], 50, 0);
  run_for(1);
  expect_completed(&letters[0], 0, 0);
  ck_assert(!uv_loop_alive(&loop));
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("mailbox");
  TCase *one = loop_tcase(suite, "one request");
  TCase *many = loop_tcase(suite, "many requests");
  TCase *alive = loop_tcase(suite, "what keeps the loop alive");

  tcase_add_test(one, a_request_does_what_the_function_of_its_name_does);
  tcase_add_test(one, the_timeout_counts_from_when_the_request_is_carried_out);
  tcase_add_test(one, the_status_is_what_the_function_returned);
  tcase_add_test(one, a_request_needs_no_callback);
  tcase_add_test(one, request_and_timer_may_be_freed_when_a_stop_is_completed);
  tcase_add_test(one, bad_input_is_refused_and_changes_nothing);
  tcase_add_test(one, a_mailbox_that_libuv_refuses_leaves_the_wheel_without);
  tcase_add_test(many, requests_are_carried_out_in_their_order);
  tcase_add_test(many, requests_allocate_nothing);
  tcase_add_test(
      many,
      what_is_posted_when_a_request_is_completed_follows_in_the_next_turn);
  tcase_add_test(many, a_timer_s_callback_may_post);
  tcase_add_test(many, a_turn_keeps_to_its_budget);
  tcase_add_test(many, a_budget_that_is_just_enough_needs_no_other_turn);
  tcase_add_test(alive,
                 a_mailbox_keeps_the_loop_alive_unless_the_wheel_is_unref_d);
  tcase_add_test(alive, a_mailbox_of_an_unref_d_wheel_keeps_no_loop_alive);
  return run_suite(suite);
}
