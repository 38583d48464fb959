/* SPDX-License-Identifier: MIT */

/* What a -Dchecks=true build adds: misuse is reported in one line on stderr,
 * with the timer and its callback, and ends the program. RIOT#4841, h2o#3243,
 * h2o#2149, tokio#515. */

#include <inttypes.h>

#include "aborts.h"
#include "insides.h"
#include "support.h"

#define TICK_MS 10
#define TIMEOUT_MS 123

static test_timer_t first, second;

/* The line names the first timer and its callback. */
static void expect_abort_of_first(void (*misuse)(void), const char *why) {
  char begin[128];

  snprintf(begin, sizeof begin, "uvwheel: timer %p, callback 0x%" PRIxPTR ": ",
           (void *)&first, (uintptr_t)on_test_timer);
  expect_abort_with(begin, misuse, why);
}

static void start_two(void) {
  open_wheel(TICK_MS, 8);
  begin_test_timer(&first, TIMEOUT_MS, 500);
  begin_test_timer(&second, TIMEOUT_MS + 1, 0);
}

static void init_again(void) {
  (void)uvwheel_timer_init(&wheel, &first.base);
}

START_TEST(init_of_idle_timers_and_of_garbage_is_fine) {
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

static void refresh_itself(test_timer_t *timer) {
  (void)uvwheel_timer_refresh(&timer->base);
}

static uvwheel_timer_t another;

static void init_another_and_refresh(test_timer_t *timer) {
  (void)uvwheel_timer_init(&wheel, &another);
  refresh_itself(timer);
}

static void fire_another_and_refresh(test_timer_t *timer) {
  second.may_be_early = true;
  (void)uvwheel_fire_soonest(&wheel, 1);
  refresh_itself(timer);
}

static void (*then)(test_timer_t *);

static void fire_first(void) {
  test_timer_start(&first, TIMEOUT_MS, 0);
  first.then = then;
  run_for(TIMEOUT_MS + TICK_MS);
}

static void fire_and_refresh(void) {
  then = refresh_itself;
  fire_first();
}

static void fire_and_refresh_later(void) {
  then = init_another_and_refresh;
  fire_first();
}

static void fire_two_and_refresh(void) {
  then = fire_another_and_refresh;
  fire_first();
}

static void refresh_second(test_timer_t *timer) {
  (void)timer;
  ck_assert_int_eq(uvwheel_timer_refresh(&second.base), 0);
}

static void start_and_refresh(test_timer_t *timer) {
  timer->then = NULL;
  test_timer_start(timer, TIMEOUT_MS, 0);
  test_timer_refresh(timer);
}

/* Its memory is used for another timer. */
static void init_and_refresh(test_timer_t *timer) {
  ck_assert_int_eq(uvwheel_timer_init(&wheel, &timer->base), 0);
  ck_assert_int_eq(uvwheel_timer_refresh(&timer->base), UV_EINVAL);
}

static void (*const fine[])(test_timer_t *) = {
    refresh_second, start_and_refresh, init_and_refresh};

START_TEST(refreshes_that_are_no_mistake_are_fine) {
  start_two();
  then = fine[_i];
  fire_first();
  ck_assert_uint_eq(first.fired, 1);
}
END_TEST

/* As large as a timer and one step. */
static uint64_t room[sizeof(uvwheel_timer_t) / 8 + 1];
static size_t offset;

static void init_in_room(void) {
  (void)uvwheel_timer_init(&wheel, (void *)((char *)room + offset));
}

START_TEST(an_unaligned_timer_is_reported) {
  char begin[64];

  open_wheel(TICK_MS, 8);
  for (offset = 0; offset <= 8; offset++) {
    snprintf(begin, sizeof begin, "uvwheel: timer %p, ",
             (void *)((char *)room + offset));
    if (offset % sizeof(void *) == 0)
      init_in_room();
    else
      expect_abort_with(begin, init_in_room, "at an unaligned address");
  }
}
END_TEST

/* A timer must not be copied: its neighbours lead to the old place. */
static void stop_a_copy(void) {
  first.base = second.base;
  (void)uvwheel_timer_stop(&first.base);
}

static void insert_again(void) {
  (void)uvwheel__core_insert(insides_of(&wheel).core, &first.base.entry, 5);
}

/* A deadline that has passed, less the time. */
static void start_at_negative(void) {
  (void)uvwheel_timer_start(&first.base, on_test_timer, UINT64_MAX - 1, 0);
}

static void expect_at_negative(void) {
  (void)uvwheel_timer_expect(&first.base, on_test_timer, UINT64_C(1) << 63);
}

static const struct {
  void (*misuse)(void);
  const char *why;
} misuses[] = {
    {start_at_negative, "started with a timeout of 2^63 ms or more"},
    {expect_at_negative, "started with a timeout of 2^63 ms or more"},
    {init_again, "initialised while active"},
    {fire_and_refresh, "refreshed in its own callback"},
    {fire_and_refresh_later, "refreshed in its own callback"},
    {fire_two_and_refresh, "refreshed in its own callback"},
    {stop_a_copy, "links were overwritten"},
    {insert_again, "inserted twice"}};

START_TEST(misuse_of_a_timer_is_reported) {
  start_two();
  expect_abort_of_first(misuses[_i].misuse, misuses[_i].why);
}
END_TEST

START_TEST(timeouts_that_are_no_negative_differences_are_fine) {
  start_two();
  test_timer_start(&first, UINT64_MAX, 0);
  test_timer_start(&first, INT64_MAX, 0);
  test_timer_expect(&second, UINT64_MAX);
  test_timer_expect(&second, INT64_MAX);
}
END_TEST

/* ---- Timers that are all zeros ------------------------------------------- */

static uvwheel_timer_t none;

static int start_it(uvwheel_timer_t *timer) {
  return uvwheel_timer_start(timer, on_test_timer, TIMEOUT_MS, 0);
}

static int expect_it(uvwheel_timer_t *timer) {
  return uvwheel_timer_expect(timer, on_test_timer, TIMEOUT_MS);
}

static int (*const uses[])(uvwheel_timer_t *) = {
    start_it, expect_it, uvwheel_timer_refresh, uvwheel_timer_again};
static int use;

static void use_none(void) {
  (void)uses[use](&none);
}

/* Also after an init that has failed. test_timers_api.c has the other calls. */
START_TEST(a_timer_that_is_all_zeros_is_reported) {
  char begin[128];

  start_two();
  snprintf(begin, sizeof begin,
           "uvwheel: timer %p, callback 0x0: ", (void *)&none);
  use = _i;
  expect_abort_with(begin, use_none, "all zeros");
  ck_assert_int_eq(uvwheel_timer_init(NULL, &none), UV_EINVAL);
  expect_abort_with(begin, use_none, "all zeros");
}
END_TEST

/* ---- Timers that are gone ------------------------------------------------ */

/* Scenario 61. One of many timers is freed while active, or overwritten: before
 * something is done with the others or with itself, or in the first callback of
 * that. Six are due at each tick, so that in a wheel with lanes some of them
 * are in the second one. */
#define CROWD 200u
#define PER_TICK 6u

static uvwheel_timer_t crowd[CROWD];
static unsigned gone;

/* An allocator's list of free memory begins where the links were. */
static void free_links(uvwheel_timer_t *timer) {
  memset(&timer->entry.link, 0x35, sizeof timer->entry.link);
}

static void clear_links(uvwheel_timer_t *timer) {
  memset(&timer->entry.link, 0, sizeof timer->entry.link);
}

/* What stands before it is too long. */
static void overrun(uvwheel_timer_t *timer) {
  *(char *)&timer->entry.link.prev ^= sizeof(void *);
}

static void clear(uvwheel_timer_t *timer) {
  memset(timer, 0, sizeof *timer);
}

static void fill(uvwheel_timer_t *timer) {
  memset(timer, 0xA5, sizeof *timer);
}

static void clear_next(uvwheel_timer_t *timer) {
  timer->entry.link.next = NULL;
}

static void on_crowd(uvwheel_timer_t *timer);

/* Its memory is used for another timer. */
static void reuse(uvwheel_timer_t *timer) {
  fill(timer);
  (void)uvwheel_timer_init(&wheel, timer);
  (void)uvwheel_timer_start(timer, on_crowd, 5000, 0);
}

/* How it goes, and what its memory is afterwards. (A close may stop the other
 * timer first.) */
enum { TIMER, NO_TIMER, MAYBE_TIMER };
static const struct {
  void (*go)(uvwheel_timer_t *timer);
  int memory;
} ways[] = {
    {free_links, TIMER}, {clear_links, TIMER}, {overrun, TIMER},
    {clear, NO_TIMER},   {fill, NO_TIMER},     {reuse, MAYBE_TIMER},
    {clear_next, TIMER},
};

static int way;

/* Before the others do something, in their first callback, or in a callback
 * that also stops them. */
enum { BEFORE, IN_CALLBACK, BEFORE_STOPS };
static int when;

static void stop_others(void);

static void on_crowd(uvwheel_timer_t *timer) {
  int now = when;

  (void)timer;
  when = BEFORE;
  if (now != BEFORE)
    ways[way].go(&crowd[gone]);
  if (now == BEFORE_STOPS)
    stop_others();
}

static void visit(uvwheel_timer_t *timer, void *arg) {
  (void)arg;
  on_crowd(timer);
}

static void stop_others(void) {
  unsigned i;

  for (i = 0; i < CROWD; i++)
    if (i != gone)
      (void)uvwheel_timer_stop(&crowd[i]);
}

static void restart_others(void) {
  unsigned i;

  for (i = 0; i < CROWD; i++)
    if (i != gone)
      (void)uvwheel_timer_start(&crowd[i], on_crowd, 1, 0);
}

static void pass(void) {
  run_for(1000);
}

static void draw_all(void) {
  (void)uvwheel_fire_soonest(&wheel, CROWD);
}

static void walk(void) {
  uvwheel_walk(&wheel, visit, NULL);
}

static void close_all(void) {
  uvwheel_close(&wheel, NULL);
}

static void stop_itself(void) {
  (void)uvwheel_timer_stop(&crowd[gone]);
}

static void restart_itself(void) {
  (void)uvwheel_timer_start(&crowd[gone], on_crowd, 1, 0);
}

/* The last two are the first of a lane, to which no other timer leads. */
static const unsigned places[] = {1, 2, 3, 5, 99, CROWD - 1, 4, 0};

/* Itself can be stopped if only its links are gone. */
static const struct {
  void (*act)(void);
  unsigned ways, places;
  bool has_callbacks;
  uint32_t turn_budget;
} acts[] = {
    {stop_others, LENGTH(ways) - 1, 6, false, 0},
    {restart_others, LENGTH(ways) - 1, 6, false, 0},
    {close_all, LENGTH(ways), LENGTH(places), false, 0},
    {stop_itself, 3, LENGTH(places), false, 0},
    {restart_itself, 3, LENGTH(places), false, 0},
    {pass, LENGTH(ways), LENGTH(places), true, 0},
    {pass, LENGTH(ways), LENGTH(places), true, 1},
    {draw_all, LENGTH(ways), LENGTH(places), true, 0},
    {walk, LENGTH(ways), LENGTH(places), true, 0},
};

static int act;

static void go_and_act(void) {
  if (when == BEFORE)
    ways[way].go(&crowd[gone]);
  acts[act].act();
}

static void expect_gone_is_named(void) {
  char begin[64], callback[128];
  const char *why[] = {callback,
                       "whose memory holds no timer of this wheel: its links "
                       "were overwritten, or it was freed while active",
                       ": its links were overwritten"};

  snprintf(begin, sizeof begin, "uvwheel: timer %p, ", (void *)&crowd[gone]);
  snprintf(callback, sizeof callback,
           "callback 0x%" PRIxPTR ": its links were overwritten",
           (uintptr_t)on_crowd);
  expect_abort_with(begin, go_and_act, why[ways[way].memory]);
}

/* Not just its neighbour, which is intact. */
START_TEST(a_timer_that_is_gone_is_named) {
  unsigned i, kind;

  act = _i;
  for (kind = 0; kind < SLOT_KINDS; kind++) {
    open_wheel_with(&(uvwheel_options_t){.tick_ms = TICK_MS,
                                         .slots = 16,
                                         .flags = slot_kinds[kind].flags,
                                         .turn_budget = acts[act].turn_budget});
    for (i = 0; i < CROWD; i++)
      begin_timer(&crowd[i], on_crowd, 100 + i / PER_TICK * TICK_MS, 0);
    for (i = 0; i < acts[act].places * acts[act].ways; i++) {
      gone = places[i % acts[act].places];
      way = (int)(i / acts[act].places);
      for (when = BEFORE; when <= BEFORE_STOPS; when++)
        if (when == BEFORE ||
            (acts[act].has_callbacks && gone % (CROWD - 1) != 0))
          expect_gone_is_named();
    }
    close_and_forget_wheel();
  }
}
END_TEST

/* ---- Requests ------------------------------------------------------------ */

static uvwheel_post_t request, other;
static unsigned called;

static void count_post(uvwheel_post_t *post, int status) {
  (void)post, (void)status;
  called++;
}

static void post_again(void) {
  (void)uvwheel_post(&wheel, &request, count_post);
}

static void post_in_callback(uvwheel_post_t *post, int status) {
  (void)post, (void)status;
  post_again();
}

static void take_and_post_again(void) {
  run_for(1);
}

static void post_two(uvwheel_post_cb cb_of_other) {
  open_wheel(TICK_MS, 8);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  ck_assert_int_eq(uvwheel_post(&wheel, &other, cb_of_other), 0);
  ck_assert_int_eq(uvwheel_post(&wheel, &request, count_post), 0);
}

/* It would lose those behind it: one that threads have queued, and one that
 * waits for its callback. */
START_TEST(a_request_that_is_posted_twice_is_reported) {
  char begin[128];

  snprintf(begin, sizeof begin,
           "uvwheel: request %p, callback 0x%" PRIxPTR ": ", (void *)&request,
           (uintptr_t)count_post);
  post_two(count_post);
  expect_abort_with(begin, post_again, "posted while it is queued");
  run_for(1);
  close_and_forget_wheel();
  post_two(post_in_callback);
  expect_abort_with(begin, take_and_post_again, "posted while it is queued");
  uvwheel_timer_init(&wheel, &first.base);
}
END_TEST

START_TEST(requests_that_were_called_back_and_copies_are_fine) {
  post_two(count_post);
  called = 0;
  run_for(1);
  ck_assert_uint_eq(called, 2);
  post_again();
  other = request;
  ck_assert_int_eq(uvwheel_post(&wheel, &other, count_post), 0);
  run_for(1);
  ck_assert_uint_eq(called, 4);
}
END_TEST

/* ---- Other threads ------------------------------------------------------- */

static uvwheel_timer_t third;

static void start_third(void) {
  (void)uvwheel_timer_start(&third, on_test_timer, TIMEOUT_MS, 0);
}

static void refresh_first(void) {
  (void)uvwheel_timer_refresh(&first.base);
}

static void unref_first(void) {
  uvwheel_timer_ref(&first.base);
  uvwheel_timer_unref(&first.base);
}

static void init_third(void) {
  (void)uvwheel_timer_init(&wheel, &third);
}

/* What a thread does, and what is named: a timer, or the wheel. */
static const struct {
  void (*act)(void);
  void *named;
} calls[] = {{start_third, &third},
             {refresh_first, &first},
             {unref_first, &first},
             {init_third, NULL}};

static void (*call)(void);

static void call_once(void *unused) {
  (void)unused;
  call();
}

static uv_sem_t loop_polls, has_called;
static bool calls_in_thread;

/* It is the one that has used the wheel last when the loop polls. */
static void call_twice(void *unused) {
  call_once(unused);
  uv_sem_post(&has_called);
  uv_sem_wait(&loop_polls);
  call();
  uv_sem_post(&has_called);
}

/* It was started before the wheel's, so libuv calls it after that. */
static void on_prepare_after_wheel(uv_prepare_t *prepare) {
  (void)prepare;
  if (!calls_in_thread) {
    call();
    return;
  }
  uv_sem_post(&loop_polls);
  uv_sem_wait(&has_called);
  calls_in_thread = false;
}

static void call_between_runs_and_in_one(void) {
  uv_thread_t thread;

  ck_assert_int_eq(uv_sem_init(&loop_polls, 0), 0);
  ck_assert_int_eq(uv_sem_init(&has_called, 0), 0);
  ck_assert_int_eq(uv_thread_create(&thread, call_twice, NULL), 0);
  uv_sem_wait(&has_called);
  calls_in_thread = true;
  run_for(1);
}

START_TEST(a_call_of_another_thread_is_reported_while_the_loop_polls) {
  static uv_prepare_t prepare;
  uv_thread_t thread;
  char begin[64];

  begin_prepare(&prepare, on_prepare_after_wheel);
  start_two();
  init_third();
  call = calls[_i].act;
  run_for(1); /* the loop's own thread may call */
  ck_assert_int_eq(uv_thread_create(&thread, call_once, NULL), 0);
  ck_assert_int_eq(uv_thread_join(&thread), 0); /* and this one, after that */
  snprintf(begin, sizeof begin, "uvwheel: %s %p",
           calls[_i].named != NULL ? "timer" : "wheel",
           calls[_i].named != NULL ? calls[_i].named : (void *)&wheel);
  expect_abort_with(begin, call_between_runs_and_in_one, "another thread");
  uv_close((uv_handle_t *)&prepare, NULL);
}
END_TEST

static void close_handles_in_poll(uv_prepare_t *unused) {
  (void)unused;
  (void)close_all_handles();
}

static void close_if_check(uv_handle_t *handle, void *unused) {
  (void)unused;
  if (handle->type == UV_CHECK)
    uv_close(handle, NULL);
}

static void close_check_in_poll(uv_prepare_t *prepare) {
  uv_walk(&loop, close_if_check, NULL);
  uv_close((uv_handle_t *)prepare, NULL);
}

static const struct {
  uv_prepare_cb close;
  uv_run_mode mode;
  int is_alive;
} closes[] = {{close_handles_in_poll, UV_RUN_DEFAULT, 0},
              {close_check_in_poll, UV_RUN_NOWAIT, 1}};

static void close_wheel(void *unused) {
  (void)unused;
  uvwheel_close(&wheel, NULL);
}

/* The wheel saw the last poll begin, and not return. */
START_TEST(any_thread_may_close_a_wheel_after_others_have_closed_its_handles) {
  static uv_prepare_t prepare;
  uv_thread_t thread;

  begin_prepare(&prepare, closes[_i].close);
  start_two();
  ck_assert_int_eq(uv_run(&loop, closes[_i].mode), closes[_i].is_alive);
  ck_assert_int_eq(uv_thread_create(&thread, close_wheel, NULL), 0);
  ck_assert_int_eq(uv_thread_join(&thread), 0);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(init_of_idle_timers_and_of_garbage_is_fine),
      EACH(misuse_of_a_timer_is_reported, misuses),
      EACH(refreshes_that_are_no_mistake_are_fine, fine),
      TEST(an_unaligned_timer_is_reported),
      TEST(timeouts_that_are_no_negative_differences_are_fine),
      EACH(a_timer_that_is_all_zeros_is_reported, uses),
      EACH(a_timer_that_is_gone_is_named, acts),
      TEST(a_request_that_is_posted_twice_is_reported),
      TEST(requests_that_were_called_back_and_copies_are_fine),
      EACH(a_call_of_another_thread_is_reported_while_the_loop_polls, calls),
      EACH(any_thread_may_close_a_wheel_after_others_have_closed_its_handles,
           closes),
  };

  return run_loop_tests("checks", tests, LENGTH(tests));
}
