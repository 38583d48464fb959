/* SPDX-License-Identifier: MIT */

/* The recipes, and the C++ example, do what they say. All but queue-work run in
 * virtual time, where their timers have exact times: see virtual_time.h. */

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs.h"
#include "suite.h"

#define TICK_MS 10 /* of all the recipes whose times are looked at */

static result_t result;
static const char *rest; /* of the output, not looked at so far */

static void
run_recipe(const char *variable)
{
  run_program(variable, "", &result);
  ck_assert_str_eq(result.err, "");
  ck_assert_int_eq(result.status, 0);
  rest = result.out;
}

/* The output goes on with this. */
static void
expect_text(const char *text)
{
  ck_assert_msg(strncmp(rest, text, strlen(text)) == 0, "not '%s' but '%s'",
                text, rest);
  rest += strlen(text);
}

static uint64_t
expect_number(void)
{
  char *end;
  uint64_t number = strtoull(rest, &end, 10);

  ck_assert_msg(end != rest, "no number: '%s'", rest);
  rest = end;
  return number;
}

/* The next line says that this happened. Returns when. */
static uint64_t
expect_event(const char *what)
{
  uint64_t time_ms = expect_number();

  expect_text(" ms: ");
  expect_text(what);
  expect_text("\n");
  return time_ms;
}

static void
expect_end(void)
{
  ck_assert_str_eq(rest, "");
}

/* It happened at the first tick after so much time, to the tick. */
static void
assert_punctual(uint64_t time_ms, uint64_t timeout_ms)
{
  ck_assert_uint_gt(time_ms, timeout_ms);
  ck_assert_uint_le(time_ms, timeout_ms + TICK_MS);
}

/* Seconds last 100 ms there. The client's own repeat brings what it sends at
 * the tick after each of them. */
START_TEST(http_timeouts_end_what_is_slow_and_nothing_else)
{
  run_recipe("HTTP_TIMEOUTS");
  uint64_t answered_ms = expect_event("good: answered");
  assert_punctual(expect_event("slow body: closed, the body is too slow"),
                  200 + TICK_MS + 500);
  assert_punctual(expect_event("slow head: closed, the head took too long"),
                  1000);
  ck_assert_uint_lt(answered_ms, 600);
  answered_ms = expect_event("good: answered");
  assert_punctual(expect_event("good: closed, idle") - answered_ms, 500);
  assert_punctual(expect_event("long body: closed, the request took too long"),
                  6000);
  expect_end();
}
END_TEST

START_TEST(the_idlest_are_listed_in_order_and_none_fires)
{
  uint64_t last_ms = UINT64_MAX;

  run_recipe("IDLEST");
  for (uint64_t i = 0; i < 10; i++) {
    ck_assert_uint_eq(expect_number(), 2 * i + 1);
    expect_text(": idle for ");
    uint64_t idle_ms = expect_number();
    ck_assert_uint_lt(idle_ms, last_ms);
    last_ms = idle_ms;
    expect_text(" ms, closed in ");
    ck_assert_uint_eq(expect_number(), 60000 - idle_ms);
    expect_text(" ms\n");
  }
  expect_text("1000 connections are open\n");
  expect_end();
}
END_TEST

START_TEST(keep_alive_pings_the_quiet_and_gives_up_the_dead)
{
  run_recipe("KEEP_ALIVE");
  uint64_t heard_ms = expect_event("message");
  for (int pongs = 0; pongs < 2; pongs++) {
    uint64_t ping_ms = expect_event("quiet, ping");
    assert_punctual(ping_ms - heard_ms, 1000);
    heard_ms = expect_event("pong");
    ck_assert_uint_le(heard_ms - ping_ms, 300);
  }
  uint64_t ping_ms = expect_event("quiet, ping");
  assert_punctual(ping_ms - heard_ms, 1000);
  assert_punctual(expect_event("no answer, the peer is dead") - ping_ms, 300);
  expect_end();
}
END_TEST

START_TEST(retries_with_jitter_are_no_herd)
{
  run_recipe("RETRY");
  expect_text("without jitter: 1000 answered, ");
  ck_assert_uint_eq(expect_number(), 1000);
  expect_text(" at once at worst\nwith jitter: 1000 answered, ");
  ck_assert_uint_lt(expect_number(), 200);
  expect_text(" at once at worst\n");
  expect_end();
}
END_TEST

START_TEST(rate_limit_holds_at_any_time_and_wastes_little)
{
  uint64_t total = 0, time_ms = 0;

  run_recipe("RATE_LIMIT");
  while (*rest != '\0') {
    time_ms = expect_number();
    expect_text(" ms: ");
    total += expect_number();
    expect_text(" bytes\n");
    ck_assert_uint_le(total, 1000 + 2 * time_ms);
  }
  ck_assert_uint_eq(total, 5000);
  ck_assert_uint_lt(time_ms, 2200);
}
END_TEST

START_TEST(queue_work_leaves_the_loop_free)
{
  run_recipe("QUEUE_WORK");
  for (unsigned work = 1; work <= 3; work++) {
    expect_text("work ");
    ck_assert_uint_eq(expect_number(), work);
    expect_text(" begins\nwork ");
    ck_assert_uint_eq(expect_number(), work);
    expect_text(" done, the other timer fired ");
    ck_assert_uint_ge(expect_number(), 3);
    expect_text(" times meanwhile\n");
  }
  expect_end();
}
END_TEST

START_TEST(shed_closes_the_idlest)
{
  static const char *const events[] = {
      "busy: welcome", "ann: welcome", "ben: welcome", "cat: welcome",
      "ann: closed",   "ben: closed",  "dan: welcome", "emil: welcome",
      "cat: closed",   "dan: closed",  "fay: welcome", "gus: welcome",
  };

  run_recipe("SHED");
  for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
    ck_assert_uint_lt(expect_event(events[i]), 60000);
  expect_text("4 left\n");
  expect_event("emil: closed");
  expect_event("fay: closed");
  /* The last two had news in the same tick. */
  ck_assert_ptr_nonnull(strstr(rest, "busy: closed\n"));
  ck_assert_ptr_nonnull(strstr(rest, "gus: closed\n"));
}
END_TEST

START_TEST(shutdown_prints_what_was_left)
{
  static const char *const left[] = {"\nleft: remind of the meeting, due in ",
                                     "\nleft: renew the certificate, due in "};
  static const uint64_t delays_ms[] = {3600000, 86400000};

  run_recipe("SHUTDOWN");
  expect_text("done: send the welcome mail\ndone: delete the old files\n"
              "told to end, with 2 jobs left");
  for (int i = 0; i < 2; i++) { /* a walk has no particular order */
    const char *found = strstr(rest, left[i]);
    ck_assert_msg(found != NULL, "no '%s' in '%s'", left[i], rest);
    uint64_t due_in_ms = strtoull(found + strlen(left[i]), NULL, 10);
    ck_assert_uint_eq(delays_ms[i] - due_in_ms, 1000);
  }
  rest = strstr(rest, "\nclosed");
  ck_assert_ptr_nonnull(rest);
  expect_text("\nclosed\n");
  expect_end();
}
END_TEST

START_TEST(cpp_sessions_end_and_their_exceptions_arrive)
{
  static const char *const ends[] = {"idle after 0 words\nended: quiet, ",
                                     "idle after 0 words\nended: broken, ",
                                     "\ncaught: a session was broken\n"};

  run_recipe("CPP_SESSIONS");
  for (int i = 0; i < 3; i++) /* the first two in no particular order */
    ck_assert_msg(strstr(rest, ends[i]) != NULL, "no '%s' in '%s'", ends[i],
                  rest);
  rest = strstr(rest, "caught");
  expect_text("caught: a session was broken\nidle after 5 words\n"
              "ended: busy, 0 left\n");
  expect_end();
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("recipes");
  TCase *tcase = tcase_create("recipes");

  suite_add_tcase(suite, tcase);
  tcase_add_test(tcase, http_timeouts_end_what_is_slow_and_nothing_else);
  tcase_add_test(tcase, the_idlest_are_listed_in_order_and_none_fires);
  tcase_add_test(tcase, keep_alive_pings_the_quiet_and_gives_up_the_dead);
  tcase_add_test(tcase, retries_with_jitter_are_no_herd);
  tcase_add_test(tcase, rate_limit_holds_at_any_time_and_wastes_little);
  tcase_add_test(tcase, queue_work_leaves_the_loop_free);
  tcase_add_test(tcase, shed_closes_the_idlest);
  tcase_add_test(tcase, shutdown_prints_what_was_left);
  if (getenv("CPP_SESSIONS") != NULL) /* nor this without a C++ compiler */
    tcase_add_test(tcase, cpp_sessions_end_and_their_exceptions_arrive);
  return run_suite(suite);
}
