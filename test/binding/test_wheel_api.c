/* SPDX-License-Identifier: MIT */

/* "The wheel" in the header: making one, walking over its timers, what bad
 * input returns. test_close.c has its end. */

#include "support.h"

/* ---- Making -------------------------------------------------------------- */

START_TEST(a_timer_fits_in_64_bytes_and_a_wheel_in_two_words) {
  ck_assert_uint_le(sizeof(uvwheel_timer_t), 64);
  ck_assert_uint_eq(sizeof(uvwheel_t), 2 * sizeof(void *));
}
END_TEST

START_TEST(a_wheel_is_a_few_ordinary_handles) {
  open_wheel(100, 8);
  ck_assert_uint_eq(handle_count(), WHEEL_HANDLES);
  ck_assert_int_eq(uv_loop_alive(&loop), 0);
  ck_assert_ptr_eq(uvwheel_get_loop(&wheel), &loop);
  ck_assert_int_eq(uvwheel_is_closing(&wheel), 0);
  ck_assert_int_eq(uvwheel_has_ref(&wheel), 1);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
}
END_TEST

static const uvwheel_options_t zero_options;
static const uvwheel_options_t bad_options[] = {
    {.tick_ms = UVWHEEL_MAX_TICK_MS + UINT64_C(1)},
    {.tick_ms = UINT64_MAX},
    {.slots = UVWHEEL_MAX_SLOTS + 1},
    {.slots = UINT32_MAX},
    {.flags = 2},
    {.flags = UVWHEEL_FIFO | 0x80000000u},
    {.reserved = {1}},
    {.reserved = {[LENGTH(zero_options.reserved) - 1] = 0x80000000u}},
};

START_TEST(bad_options_no_loop_and_no_wheel_leave_the_loop_alone) {
  expect_init_fails(&loop, &bad_options[_i], UV_EINVAL);
  expect_init_fails(NULL, NULL, UV_EINVAL);
  ck_assert_int_eq(uvwheel_init(&loop, NULL, NULL), UV_EINVAL);
  ck_assert_uint_eq(handle_count(), 0);
}
END_TEST

static const uvwheel_options_t *const default_options[] = {NULL, &zero_options};

START_TEST(all_zero_options_and_none_mean_the_defaults) {
  static test_timer_t timer;
  uvwheel_options_t options;

  open_wheel_with(default_options[_i]);
  ck_assert_int_eq(uvwheel_get_options(&wheel, &options), 0);
  ck_assert_uint_eq(options.tick_ms, UVWHEEL_DEFAULT_TICK_MS);
  ck_assert_uint_eq(options.slots, UVWHEEL_DEFAULT_SLOTS);
  ck_assert_uint_eq(options.turn_budget, UVWHEEL_DEFAULT_TURN_BUDGET);
  ck_assert_uint_eq(options.turn_ms, UVWHEEL_DEFAULT_TURN_MS);
  ck_assert_uint_eq(options.stall_ms, UVWHEEL_DEFAULT_STALL_MS);
  ck_assert_uint_eq(options.max_timers, 0);
  ck_assert_uint_eq(options.flags, 0);
  test_timer_init(&timer);
  expect_punctual(&timer, 1000);
}
END_TEST

START_TEST(the_largest_options_are_legal) {
  const uvwheel_options_t options = {.tick_ms = UVWHEEL_MAX_TICK_MS,
                                     .slots = 1 << 16,
                                     .turn_budget = UINT32_MAX,
                                     .max_timers = UINT64_MAX,
                                     .flags = UVWHEEL_FIFO};
  static test_timer_t timer;

  open_wheel_with(&options);
  test_timer_init(&timer);
  expect_punctual(&timer, UVWHEEL_MAX_TICK_MS);
  rewind_clock();
}
END_TEST

/* A round of 51.2 s, as far as the limits allow. */
static const struct {
  uint64_t tick_ms;
  uint32_t slots;
} default_slots[] = {{0, 512},       {100, 512}, {101, 512}, {99, 1024},
                     {50, 1024},     {49, 2048}, {10, 8192}, {7, 8192},
                     {4, 16384},     {3, 16384}, {1, 16384}, {1000, 512},
                     {86400000, 512}};

START_TEST(slots_follow_from_the_tick) {
  uvwheel_options_t chosen;

  open_wheel_with(&(uvwheel_options_t){.tick_ms = default_slots[_i].tick_ms});
  ck_assert_int_eq(uvwheel_get_options(&wheel, &chosen), 0);
  ck_assert_uint_eq(chosen.slots, default_slots[_i].slots);
}
END_TEST

static void count_post(uvwheel_post_t *post, int status) {
  ck_assert_int_eq(status, 0);
  ++*(unsigned *)post->data;
}

/* Uses the wheel before its first turn, too, and closes it if the timer has an
 * argument. */
static void run(void *arg) {
  test_timer_t *timer = arg;

  test_timer_refresh(timer);
  run_for(1000);
  if (timer->arg != NULL)
    uvwheel_close(&wheel, on_wheel_closed);
  run_for(10);
}

/* It is closed there, or inspected and closed here afterwards. */
START_TEST(a_wheel_prepared_here_can_run_on_another_thread) {
  bool closes = _i != 0;
  static uvwheel_post_t post;
  static test_timer_t timer;
  unsigned posts = 0;
  uv_thread_t thread;

  open_wheel(10, 8);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  begin_test_timer(&timer, 50, 100);
  timer.arg = closes ? &timer : NULL;
  post.data = &posts;
  ck_assert_int_eq(uvwheel_post(&wheel, &post, count_post), 0);
  ck_assert_int_eq(uv_thread_create(&thread, run, &timer), 0);
  ck_assert_int_eq(uv_thread_join(&thread), 0);
  ck_assert_uint_eq(posts, 1);
  ck_assert_uint_eq(timer.fired, closes ? 9 : 10);
  ck_assert_uint_eq(wheels_closed, closes);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer.base), !closes);
  ck_assert_uint_eq(stats_of_wheel().fired, closes ? 0 : timer.fired);
  test_timer_stop(&timer);
}
END_TEST

/* `data` belongs to the user, from before the init to after the close. */
START_TEST(data_is_never_written) {
  uvwheel_t untouched;
  static test_timer_t timer;

  memset(&untouched, 0xA5, sizeof untouched);
  open_wheel(100, 8);
  begin_test_timer(&timer, 100, 100);
  run_for(1000);
  test_timer_refresh(&timer);
  test_timer_stop(&timer);
  ck_assert_ptr_eq(timer.base.data, untouched.data);
  ck_assert_ptr_eq(wheel.data, untouched.data);
  uvwheel_close(&wheel, NULL);
  run_for(0);
  ck_assert_ptr_eq(wheel.data, untouched.data);
}
END_TEST

START_TEST(the_version_is_the_header_s) {
  char text[32];

  snprintf(text, sizeof text, "%d.%d.%d%s", UVWHEEL_VERSION_MAJOR,
           UVWHEEL_VERSION_MINOR, UVWHEEL_VERSION_PATCH,
           UVWHEEL_VERSION_IS_RELEASE ? "" : "-" UVWHEEL_VERSION_SUFFIX);
  ck_assert_str_eq(uvwheel_version_string(), text);
  ck_assert_uint_eq(uvwheel_version(), UVWHEEL_VERSION_HEX);
}
END_TEST

/* ---- Walking ------------------------------------------------------------- */

static unsigned visits;

static void run_the_loop_once(uvwheel_timer_t *timer, void *arg) {
  (void)timer, (void)arg;
  if (visits++ == 0)
    run_for(700);
  verify_wheel();
}

/* Scenario 43. Forbidden, but survived: only the timer that was visited fires.
 * The others, which are due, do not wake the loop again and again, and fire
 * after the walk. */
START_TEST(a_loop_that_is_run_inside_a_walk_fires_what_was_visited) {
  static test_timer_t timers[3];
  uint64_t polls;
  size_t i;

  visits = 0;
  open_wheel(10, 8);
  for (i = 0; i < LENGTH(timers); i++)
    begin_test_timer(&timers[i], 10 * i, 0);
  polls = virtual_time_polls();
  uvwheel_walk(&wheel, run_the_loop_once, NULL);
  ck_assert_uint_le(virtual_time_polls() - polls, 5);
  ck_assert_uint_eq(visits, LENGTH(timers));
  ck_assert_uint_eq(fired_in_all, 1);
  ck_assert_int_eq(uv_backend_timeout(&loop), 0);
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, LENGTH(timers));
}
END_TEST

#define MET 3000u

static unsigned walked;

static void free_in_walk(uvwheel_timer_t *timer, void *unused) {
  (void)unused;
  uvwheel_timer_close(timer);
  free(timer);
  walked++;
}

static void free_in_callback(uvwheel_timer_t *timer) {
  free(timer);
}

static void free_all(test_timer_t *unused) {
  (void)unused;
  uvwheel_walk(&wheel, free_in_walk, NULL);
}

/* In a turn that has more timers than it finds at once, and of two rounds. */
START_TEST(a_walk_may_free_each_timer_that_it_meets) {
  static test_timer_t walker;
  uvwheel_timer_t *timer;
  unsigned i;

  walked = 0;
  open_wheel_with(&(uvwheel_options_t){
      .tick_ms = 10, .slots = 8, .flags = slot_kinds[_i].flags});
  test_timer_init(&walker);
  walker.then = free_all;
  for (i = 0; i < MET; i++) {
    timer = malloc(sizeof *timer);
    begin_timer(timer, free_in_callback, 20 + i % 40 + i % 2 * 80, 0);
    if (i == MET / 2)
      test_timer_start(&walker, 45, 0);
  }
  run_for(5000);
  require_in(slot_kinds[_i].name, walker.fired == 1);
  require_in(slot_kinds[_i].name, stats_of_wheel().fired > 100);
  require_in(slot_kinds[_i].name, stats_of_wheel().fired - 1 + walked == MET);
}
END_TEST

/* ---- Bad input ----------------------------------------------------------- */

static void fail_on_visit(uvwheel_timer_t *timer, void *arg) {
  ck_abort_msg("a walk visits %p %p", (void *)timer, arg);
}

static void fail_on_post(uvwheel_post_t *post, int status) {
  ck_abort_msg("a request is called back: %p, %d", (void *)post, status);
}

/* All that can be asked of a wheel. */
static void expect_no_wheel(uvwheel_t *none) {
  static uvwheel_timer_t timer;
  static uvwheel_post_t post;
  uvwheel_options_t options;
  uvwheel_stats_t stats, zero;

  memset(&stats, 0xA5, sizeof stats);
  memset(&zero, 0, sizeof zero);
  uvwheel_close(none, NULL);
  ck_assert_int_eq(uvwheel_is_closing(none), 0);
  ck_assert_ptr_null(uvwheel_get_loop(none));
  ck_assert_uint_eq(uvwheel_count(none), 0);
  ck_assert_uint_eq(uvwheel_count_slot(none, 0), 0);
  ck_assert_uint_eq(uvwheel_fire_soonest(none, 1), 0);
  ck_assert_int_eq(uvwheel_get_options(none, &options), UV_EINVAL);
  ck_assert_int_eq(uvwheel_open_mailbox(none), UV_EINVAL);
  ck_assert_int_eq(uvwheel_post(none, &post, fail_on_post),
                   none == NULL ? UV_EINVAL : UV_ECANCELED);
  uvwheel_walk(none, fail_on_visit, NULL);
  uvwheel_ref(none);
  uvwheel_unref(none);
  ck_assert_int_eq(uvwheel_has_ref(none), 0);
  uvwheel_get_stats(none, &stats);
  ck_assert_mem_eq(&stats, &zero, sizeof stats);
  uvwheel_get_stats(none, NULL);
  uvwheel_print(none, stderr);
  ck_assert_int_eq(uvwheel_timer_init(none, &timer), UV_EINVAL);
}

static uvwheel_t zeroed_wheel;
static uvwheel_t *const no_wheels[] = {NULL, &zeroed_wheel, &wheel};

/* Scenario 60: nor is one whose init has failed. */
START_TEST(no_wheel_is_harmless) {
  static uvwheel_t before;

  expect_init_fails(&loop, &bad_options[0], UV_EINVAL);
  expect_no_wheel(no_wheels[_i]);
  ck_assert_mem_eq(&zeroed_wheel, &before, sizeof before);
}
END_TEST

static void reopen(uvwheel_t *closed) {
  on_wheel_closed(closed);
  expect_no_wheel(closed);
  open_wheel(10, 8);
}

START_TEST(from_its_close_callback_on_a_wheel_is_none_and_can_be_made_again) {
  static test_timer_t timer;

  open_wheel(100, 512);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  uvwheel_close(&wheel, reopen);
  run_for(10);
  ck_assert_uint_eq(wheels_closed, 1);
  test_timer_init(&timer);
  expect_punctual(&timer, 10);
  uvwheel_close(&wheel, NULL);
  run_for(10);
  expect_no_wheel(&wheel);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(a_timer_fits_in_64_bytes_and_a_wheel_in_two_words),
      TEST(a_wheel_is_a_few_ordinary_handles),
      EACH(bad_options_no_loop_and_no_wheel_leave_the_loop_alone, bad_options),
      EACH(all_zero_options_and_none_mean_the_defaults, default_options),
      TEST(the_largest_options_are_legal),
      EACH(slots_follow_from_the_tick, default_slots),
      {a_wheel_prepared_here_can_run_on_another_thread, 0, 2},
      TEST(data_is_never_written),
      TEST(the_version_is_the_header_s),
      TEST(a_loop_that_is_run_inside_a_walk_fires_what_was_visited),
      EACH(a_walk_may_free_each_timer_that_it_meets, slot_kinds),
      EACH(no_wheel_is_harmless, no_wheels),
      TEST(from_its_close_callback_on_a_wheel_is_none_and_can_be_made_again),
  };

  return run_loop_tests("wheel_api", tests, LENGTH(tests));
}
