/* SPDX-License-Identifier: MIT */

/* What a -Dchecks=true build adds: misuse is reported on stderr, with the
 * timer, its due time and its tick, and ends the program. RIOT#4841, h2o#3243,
 * h2o#2149, tokio#515. */

#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define TICK_MS 10
#define TIMEOUT_MS 123

static test_timer_t first, second;

/* In a child process: does it with stderr in the pipe. */
static void
misuse_in_child(void (*misuse)(void), int fd)
{
  const struct rlimit none = {0, 0};

  setrlimit(RLIMIT_CORE, &none);
  dup2(fd, STDERR_FILENO);
  misuse();
  _exit(EXIT_SUCCESS);
}

/* The misuse aborts with one line that names the wheel, the timer if any, and
 * the reason. */
static void
expect_abort_with(const char *timer, void (*misuse)(void), const char *why)
{
  char message[1024] = "", begin[64];
  ssize_t length = 0, more;
  int fds[2], status;
  pid_t child;

  ck_assert_int_eq(pipe(fds), 0);
  child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0)
    misuse_in_child(misuse, fds[1]);
  close(fds[1]);
  while ((more = read(fds[0], message + length,
                      sizeof message - 1 - (size_t)length)) > 0)
    length += more;
  close(fds[0]);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
                "status %d, said: %s", status, message);
  snprintf(begin, sizeof begin, "uvwheel: wheel %p, ", (void *)&wheel);
  ck_assert_msg(strstr(message, begin) == message, "said: %s", message);
  ck_assert_msg(strstr(message, timer) != NULL, "said: %s", message);
  ck_assert_msg(strstr(message, why) != NULL, "said: %s", message);
  ck_assert_ptr_eq(strchr(message, '\n'), message + length - 1);
}

static void
expect_abort(void (*misuse)(void), const char *why)
{
  expect_abort_with("", misuse, why);
}

/* The message names the first timer. */
static void
expect_abort_of_first(void (*misuse)(void), const char *why)
{
  char timer[128];

  snprintf(timer, sizeof timer,
           "timer %p, due at %" PRIu64 " ms, tick %" PRIu64, (void *)&first,
           START_MS + TIMEOUT_MS, (START_MS + TIMEOUT_MS) / TICK_MS + 1);
  expect_abort_with(timer, misuse, why);
}

static void
start_two(void)
{
  open_wheel(TICK_MS, 8);
  test_timer_init(&first);
  test_timer_init(&second);
  test_timer_start(&first, TIMEOUT_MS, 500);
  test_timer_start(&second, TIMEOUT_MS + 1, 0);
}

static void
init_again(void)
{
  (void)uvwheel_timer_init(&wheel, &first.base);
}

START_TEST(init_of_an_active_timer_is_reported)
{
  start_two();
  expect_abort_of_first(init_again, "initialised while active");
}
END_TEST

START_TEST(init_of_an_unref_d_active_timer_is_reported)
{
  start_two();
  uvwheel_timer_unref(&first.base);
  expect_abort_of_first(init_again, "initialised while active");
}
END_TEST

START_TEST(init_of_idle_timers_and_of_garbage_is_fine)
{
  start_two();
  test_timer_stop(&first);
  init_again();
  memset(&first.base, 0xFF, sizeof first.base);
  init_again();
  first.base = second.base; /* looks active, and is a mere copy */
  init_again();
  test_timer_start(&first, 5, 0);
}
END_TEST

static void
init_wheel_again(void)
{
  (void)uvwheel_init(&loop, &wheel, NULL);
}

/* Even when others have closed its handle and the loop. */
START_TEST(init_of_a_wheel_that_was_not_closed_is_reported)
{
  const char *why = "initialised while not closed";

  start_two();
  expect_abort(init_wheel_again, why);
  close_all_handles();
  run_for(0);
  expect_abort(init_wheel_again, why);
}
END_TEST

/* ---- Threads ------------------------------------------------------------- */

static void
on_visit(uvwheel_timer_t *timer, void *arg)
{
  (void)timer;
  (void)arg;
}

#define USE(call)      \
  if (number-- == 0) { \
    (void)(call);      \
    return;            \
  }

#define USES_OF_TIMERS 13

static void
use_timer(int number)
{
  uvwheel_timer_t *timer = &first.base;

  USE(uvwheel_timer_start(timer, on_test_timer, 1, 0));
  USE(uvwheel_timer_stop(timer));
  USE(uvwheel_timer_again(timer));
  USE(uvwheel_timer_refresh(timer));
  USE(uvwheel_timer_is_active(timer));
  USE(uvwheel_timer_get_due_in(timer));
  USE(uvwheel_timer_get_rounds(timer));
  USE(uvwheel_timer_get_wheel(timer));
  USE(uvwheel_timer_set_repeat(timer, 5));
  USE(uvwheel_timer_get_repeat(timer));
  USE(uvwheel_timer_set_missed(timer, UVWHEEL_MISSED_BURST));
  USE(uvwheel_timer_unref(timer));
  USE(uvwheel_timer_has_ref(timer));
}

#define USES_OF_WHEELS 17

static void
use_wheel(int number)
{
  uvwheel_options_t options;
  uvwheel_stats_t stats;
  uvwheel_timer_t timer;

  USE(uvwheel_is_closing(&wheel));
  USE(uvwheel_get_loop(&wheel));
  USE(uvwheel_now(&wheel));
  USE(uvwheel_count(&wheel));
  USE(uvwheel_walk(&wheel, on_visit, NULL));
  USE(uvwheel_fire_soonest(&wheel, 0)); /* callbacks would be told of */
  USE(uvwheel_ref(&wheel));
  USE(uvwheel_unref(&wheel));
  USE(uvwheel_has_ref(&wheel));
  USE(uvwheel_get_stats(&wheel, &stats));
  USE(uvwheel_get_options(&wheel, &options));
  USE(uvwheel_slot_count(&wheel, 0));
  USE(uvwheel_print(&wheel, stderr));
  USE(uvwheel_timer_init(&wheel, &timer));
  USE(uvwheel_open_mailbox(&wheel));
  USE(uvwheel_close(&wheel, NULL));
}

static void (*use)(int number);
static int use_number;

static void
use_here(void *unused)
{
  (void)unused;
  use(use_number);
}

static void
use_elsewhere(void)
{
  uv_thread_t thread;

  if (uv_thread_create(&thread, use_here, NULL) == 0)
    uv_thread_join(&thread);
}

static void
use_elsewhere_in_callback(test_timer_t *unused)
{
  (void)unused;
  use_elsewhere();
}

/* While a callback of the wheel runs. */
static void
run_a_callback(void)
{
  second.then = use_elsewhere_in_callback;
  uv_update_time(&loop);
  test_timer_start(&second, 0, 0);
  run_for(2 * TICK_MS);
}

static void
on_async(uv_async_t *async)
{
  (void)async;
  use_elsewhere();
}

/* While a callback of another handle runs. */
static void
run_an_async(void)
{
  static uv_async_t async;

  (void)uv_async_init(&loop, &async, on_async);
  (void)uv_async_send(&async);
  run_for(TICK_MS);
}

static void
start_two_to_use(void (*used)(int number), int number)
{
  start_two();
  use = used;
  use_number = number;
}

START_TEST(use_of_a_timer_on_a_second_thread_is_reported)
{
  start_two_to_use(use_timer, _i);
  expect_abort_of_first(run_a_callback, "thread");
  expect_abort_of_first(run_an_async, "thread");
}
END_TEST

START_TEST(use_of_a_wheel_on_a_second_thread_is_reported)
{
  start_two_to_use(use_wheel, _i);
  expect_abort(run_a_callback, "thread");
  expect_abort(run_an_async, "thread");
}
END_TEST

static uv_sem_t is_over, may_end;

static void
run_and_stay(void *unused)
{
  (void)unused;
  virtual_time_advance_ms(2 * TIMEOUT_MS);
  uv_run(&loop, UV_RUN_NOWAIT);
  uv_run(&loop, UV_RUN_NOWAIT);
  uv_sem_post(&is_over);
  uv_sem_wait(&may_end);
}

START_TEST(a_wheel_can_be_closed_while_the_thread_that_ran_it_lives_on)
{
  uv_thread_t thread;

  start_two();
  ck_assert_int_eq(uv_sem_init(&is_over, 0), 0);
  ck_assert_int_eq(uv_sem_init(&may_end, 0), 0);
  ck_assert_int_eq(uv_thread_create(&thread, run_and_stay, NULL), 0);
  uv_sem_wait(&is_over);
  ck_assert_uint_eq(first.fired, 1);
  ck_assert_int_eq(uvwheel_timer_refresh(&first.base), 0);
  uvwheel_close(&wheel, NULL);
  run_for(1);
  uv_sem_post(&may_end);
  uv_thread_join(&thread);
  uv_sem_destroy(&is_over);
  uv_sem_destroy(&may_end);
}
END_TEST

/* ---- Links and requests -------------------------------------------------- */

static void
stop_with_broken_prev(void)
{
  first.base.entry.link.next->prev = &second.base.entry.link;
  (void)uvwheel_timer_stop(&first.base);
}

static void
stop_with_broken_next(void)
{
  first.base.entry.link.prev->next = &second.base.entry.link;
  (void)uvwheel_timer_stop(&first.base);
}

static void
restart_earlier_with_broken_next(void)
{
  first.base.entry.link.prev->next = &second.base.entry.link;
  (void)uvwheel_timer_start(&first.base, on_test_timer, 1, 0);
}

static void (*const corruptions[])(void) = {stop_with_broken_prev,
                                            stop_with_broken_next,
                                            restart_earlier_with_broken_next};

START_TEST(a_corrupted_link_is_reported)
{
  start_two();
  expect_abort_of_first(corruptions[_i], "links were overwritten");
}
END_TEST

/* They stand behind the two. */
static test_timer_t third, last;

static void
pass_with_broken_begin(void)
{
  first.base.entry.link.prev = &second.base.entry.link;
  run_for(2 * TIMEOUT_MS);
}

static void
pass_with_broken_middle(void)
{
  third.base.entry.link.prev = &first.base.entry.link;
  run_for(2 * TIMEOUT_MS);
}

static void
pass_with_broken_end(void)
{
  last.base.entry.link.next = &second.base.entry.link;
  run_for(2 * TIMEOUT_MS);
}

static void (*const passes[])(void) = {
    pass_with_broken_begin, pass_with_broken_middle, pass_with_broken_end};

/* Although the pass itself could go on with them, and would mend the outer
 * ones. */
START_TEST(a_pass_over_corrupted_links_is_reported)
{
  start_two();
  test_timer_init(&third);
  test_timer_init(&last);
  test_timer_start(&third, TIMEOUT_MS, 0);
  test_timer_start(&last, TIMEOUT_MS, 0);
  expect_abort(passes[_i], "links were overwritten");
}
END_TEST

static void
insert_again(void)
{
  (void)uvwheel__core_insert(&wheel.core, &first.base.entry, 5);
}

START_TEST(an_entry_that_is_inserted_twice_is_reported)
{
  start_two();
  expect_abort_of_first(insert_again, "inserted twice");
}
END_TEST

START_TEST(the_links_of_an_idle_timer_are_poisoned)
{
  start_two();
  test_timer_stop(&first);
  ck_assert_ptr_null(first.base.entry.link.next);
  ck_assert_ptr_eq(first.base.entry.link.prev, (void *)(uintptr_t)0xdeadbeef);
}
END_TEST

static uvwheel_post_t post;

static void
on_post(uvwheel_post_t *posted, int status)
{
  (void)posted;
  (void)status;
}

static void
post_it(void)
{
  (void)uvwheel_post(&wheel, &post, on_post);
}

START_TEST(a_request_that_is_posted_while_it_is_queued_is_reported)
{
  open_wheel(TICK_MS, 8);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  post_it();
  expect_abort(post_it, "posted again");
}
END_TEST

/* Called back, canceled, refused, or a mere copy of one that is queued. */
START_TEST(a_request_that_is_not_queued_may_be_posted)
{
  uvwheel_post_t copy;

  open_wheel(TICK_MS, 8);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  post_it();
  copy = post;
  ck_assert_int_eq(uvwheel_post(&wheel, &copy, on_post), 0);
  run_for(1);
  post_it();
  uvwheel_close(&wheel, NULL);
  run_for(1);
  post_it();
  post_it();
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("checks");
  TCase *checks = loop_tcase(suite, "checks");

  tcase_add_test(checks, init_of_an_active_timer_is_reported);
  tcase_add_test(checks, init_of_an_unref_d_active_timer_is_reported);
  tcase_add_test(checks, init_of_idle_timers_and_of_garbage_is_fine);
  tcase_add_test(checks, init_of_a_wheel_that_was_not_closed_is_reported);
  tcase_add_loop_test(checks, use_of_a_timer_on_a_second_thread_is_reported, 0,
                      USES_OF_TIMERS);
  tcase_add_loop_test(checks, use_of_a_wheel_on_a_second_thread_is_reported, 0,
                      USES_OF_WHEELS);
  tcase_add_test(checks,
                 a_wheel_can_be_closed_while_the_thread_that_ran_it_lives_on);
  tcase_add_loop_test(checks, a_corrupted_link_is_reported, 0,
                      LENGTH(corruptions));
  tcase_add_loop_test(checks, a_pass_over_corrupted_links_is_reported, 0,
                      LENGTH(passes));
  tcase_add_test(checks, an_entry_that_is_inserted_twice_is_reported);
  tcase_add_test(checks, the_links_of_an_idle_timer_are_poisoned);
  tcase_add_test(checks,
                 a_request_that_is_posted_while_it_is_queued_is_reported);
  tcase_add_test(checks, a_request_that_is_not_queued_may_be_posted);
  return run_suite(suite);
}
