/* SPDX-License-Identifier: MIT */

/* The recipes, and the C++ example, do what they say. All but progress run in
 * virtual time, where their timers have exact times: on Linux by the file of
 * examples/ that is made for users' tests. They free what they say may be
 * freed: test/run sanitize runs them under AddressSanitizer. */

#include <check.h>
#include <stdint.h>
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

static void
expect_punctual(const char *what, uint64_t timeout_ms)
{
  assert_punctual(expect_event(what), timeout_ms);
}

static void
expect_most(uint64_t least, uint64_t most)
{
  uint64_t number = expect_number();

  ck_assert_uint_ge(number, least);
  ck_assert_uint_le(number, most);
}

/* 5,000 in 12 minutes. By chance 500 in one of them are possible, 550 are not.
 */
START_TEST(age_spreads_the_ends_of_what_began_together)
{
  run_recipe("AGE");
  expect_text("together: ");
  expect_most(5000, 5000);
  expect_text(" in a minute at most, 2500 went, 2500 were closed\nspread: ");
  expect_most(5000 / 12, 550);
  expect_text(" in a minute at most, 2500 went, 2500 were closed\n");
  expect_end();
}
END_TEST

START_TEST(deadlines_that_have_passed_fire_and_dates_survive)
{
  run_recipe("DEADLINES");
  expect_punctual("request: its deadline has passed", 500);
  expect_punctual("request: its deadline has passed", 1000 + TICK_MS);
  expect_punctual("reminder: the time has come", 3000);
  expect_end();
}
END_TEST

START_TEST(drain_spreads_the_ends_whoever_speaks_and_cuts_off_no_answer)
{
  run_recipe("DRAIN");
  expect_text("200 left with an answer\n");
  ck_assert_uint_eq(expect_event("server: ended"), 10001);
  expect_most(20000 / 50, 600);
  expect_text(" in 100 ms at most\n");
  expect_end();
}
END_TEST

/* Seconds last 100 ms there. The client's own repeat brings what it sends at
 * the tick after each of them; the looks are 500 ms and a tick apart. The
 * stream has its first look after a second, and dies 33 s after it came. */
START_TEST(http_timeouts_end_what_is_slow_and_nothing_else)
{
  run_recipe("HTTP_TIMEOUTS");
  expect_punctual("gone: closed, the request took too long",
                  300 + TICK_MS + 100);
  expect_punctual("good: answered", 500);
  expect_punctual("stuck: closed, too slow", 100 + TICK_MS + 500);
  expect_punctual("slow body: closed, too slow", 200 + TICK_MS + 500);
  expect_punctual("slow head: closed, the head took too long", 1000);
  expect_punctual("good: answered", 1200);
  expect_punctual("good: closed, idle", 1200 + TICK_MS + 500);
  expect_punctual("stream: closed, too slow", 100 + 8 * (500 + TICK_MS));
  expect_punctual("long body: closed, the request took too long", 6000);
  expect_punctual("download: answered", 7600);
  expect_punctual("download: closed, idle", 7600 + TICK_MS + 500);
  expect_end();
}
END_TEST

START_TEST(keep_alive_pings_the_quiet_and_gives_up_the_dead_and_the_unused)
{
  run_recipe("KEEP_ALIVE");
  ck_assert_uint_le(expect_event("peer: quiet, ping"), 6000 + TICK_MS);
  uint64_t heard_ms = expect_event("peer: message");
  uint64_t ping_ms = expect_event("peer: quiet, ping");
  assert_punctual(ping_ms - heard_ms, 6000);
  heard_ms = expect_event("peer: pong");
  assert_punctual(heard_ms - ping_ms, 50);
  ping_ms = expect_event("peer: quiet, ping");
  assert_punctual(ping_ms - heard_ms, 6000);
  assert_punctual(expect_event("peer: no answer, dead") - ping_ms, 300);
  expect_most(3000 / 60, 150);
  expect_text(" pings in 100 ms at most, 2999 unused\n");
  expect_end();
}
END_TEST

/* Seconds last 100 ms there. When memory is short, 100,000 connections are
 * open, 2,000 for each second. The first has spoken in the 46th second, and
 * goes on. Another one comes in the 60th. */
START_TEST(pressure_shortens_the_timeout_of_those_that_are_there)
{
  run_recipe("PRESSURE");
  for (uint64_t second = 50; second <= 70; second++) {
    uint64_t silent = second == 50  ? 99999
                      : second < 57 ? 2000 * (57 - second)
                                    : 0;
    uint64_t newcomer = second >= 60 && second <= 66;

    ck_assert_uint_eq(expect_number(), second);
    expect_text(" s: ");
    ck_assert_uint_eq(expect_number(), 1 + silent + newcomer);
    expect_text(" open\n");
  }
  expect_end();
}
END_TEST

static const char *const progress[] = {"PROGRESS", "PROGRESS_SMALL"};

/* When it happened: the time before it has five digits. */
static uint64_t
time_of(const char *what)
{
  const char *found = strstr(result.out, text_of(" ms: %s", what));

  ck_assert_msg(found != NULL, "no '%s' in '%s'", what, result.out);
  return strtoull(found - 5, NULL, 10);
}

/* In real time. The kernels alone would take all of the answer at once, and the
 * messages to the dead one for 20 s. With a small buffer those are not taken,
 * and nothing is left. */
START_TEST(progress_counts_what_the_peer_has_taken)
{
  run_recipe(progress[_i]);
  ck_assert_uint_gt(time_of("stuck: closed, stuck\n"), 1000);
  ck_assert_uint_gt(time_of("unread: closed, idle\n"), 1500);
  ck_assert_uint_gt(time_of("slow: closed, idle\n"), 2000);
  ck_assert_uint_lt(time_of("dead: closed"), time_of("slow"));
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
  while (total < 5000) {
    time_ms = expect_number();
    expect_text(" ms: ");
    total += expect_number();
    expect_text(" bytes\n");
    ck_assert_uint_le(total, 1000 + 2 * time_ms);
  }
  ck_assert_uint_lt(time_ms, 2200);
  /* In the last pause it does not count as idle. */
  assert_punctual(expect_event("peer: closed") - time_ms, 100 + TICK_MS + 150);
  expect_end();
}
END_TEST

START_TEST(shed_closes_who_says_nothing_but_not_who_is_served)
{
  static const char *const events[] = {
      "ann: welcome", "ben: welcome",        "cat: welcome",
      "dan: welcome", "dan's file: welcome", "dan: served",
      "ben: closed",  "cat: closed",         "emil: welcome",
      "fay: welcome", "dan's file: closed",  "emil: closed",
  };

  run_recipe("SHED");
  for (size_t i = 0; i < LENGTH(events); i++)
    ck_assert_uint_lt(expect_event(events[i]), 5000);
  expect_text("3 left\n");
  expect_event("fay: closed");
  expect_event("ann: closed");
  expect_event("dan: closed");
  expect_end();
}
END_TEST

START_TEST(cpp_sessions_end_and_their_exceptions_arrive)
{
  static const char *const ends[] = {"idle after 0 words\nended: quiet, ",
                                     "idle after 0 words\nended: broken, ",
                                     "\ncaught: a session was broken\n", NULL};

  run_recipe("CPP_SESSIONS");
  assert_has(rest, ends); /* the first two in no particular order */
  rest = strstr(rest, "caught");
  expect_text("caught: a session was broken\nidle after 5 words\n"
              "ended: busy, 0 left\n");
  expect_end();
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      TEST(age_spreads_the_ends_of_what_began_together),
      TEST(deadlines_that_have_passed_fire_and_dates_survive),
      TEST(drain_spreads_the_ends_whoever_speaks_and_cuts_off_no_answer),
      TEST(http_timeouts_end_what_is_slow_and_nothing_else),
      TEST(keep_alive_pings_the_quiet_and_gives_up_the_dead_and_the_unused),
      TEST(pressure_shortens_the_timeout_of_those_that_are_there),
      EACH(progress_counts_what_the_peer_has_taken, progress),
      TEST(rate_limit_holds_at_any_time_and_wastes_little),
      TEST(retries_with_jitter_are_no_herd),
      TEST(shed_closes_who_says_nothing_but_not_who_is_served),
      TEST(cpp_sessions_end_and_their_exceptions_arrive),
  };
  size_t count = LENGTH(tests);

  if (!is_built("CPP_SESSIONS"))
    count--; /* the last one */
  return run_tests("recipes", NULL, NULL, tests, count);
}
