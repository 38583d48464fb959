/* SPDX-License-Identifier: MIT */

/* Ref and unref: what keeps the loop alive, and what bounds its poll. */

#include "support.h"

static int
is_alive(void)
{
  return uv_loop_alive(&loop) != 0;
}

/* Runs the loop until nothing keeps it: did it wait for the timers? */
static bool
stays(void)
{
  uint64_t begin_ms = uv_now(&loop);

  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  return uv_now(&loop) > begin_ms;
}

static const struct {
  const char *name;
  bool wheel, first, second;
  bool stays;
} unrefs[] = {
    {"nothing", false, false, false, true},
    {"the first timer", false, true, false, true},
    {"the second timer", false, false, true, true},
    {"both timers", false, true, true, false},
    {"the wheel", true, false, false, false},
    {"the wheel and the first timer", true, true, false, false},
    {"the wheel and the second timer", true, false, true, false},
    {"all", true, true, true, false},
};

static void
unref_and_run(int number, bool start_first)
{
  const bool unref_timers[] = {unrefs[number].first, unrefs[number].second};
  const char *name = unrefs[number].name;
  static test_timer_t timers[2];
  int i;

  open_wheel(10, 8);
  test_timer_init_all(timers, 2);
  for (i = 0; i < 2; i++) {
    if (start_first)
      test_timer_start(&timers[i], 100, 0);
    if (unref_timers[i])
      uvwheel_timer_unref(&timers[i].base);
    if (!start_first)
      test_timer_start(&timers[i], 100, 0);
    require_in(name,
               uvwheel_timer_has_ref(&timers[i].base) == !unref_timers[i]);
  }
  if (unrefs[number].wheel)
    uvwheel_unref(&wheel);
  require_in(name, uvwheel_has_ref(&wheel) == !unrefs[number].wheel);
  require_in(name, is_alive() == unrefs[number].stays);
  require_in(name, stays() == unrefs[number].stays);
}

START_TEST(the_loop_stays_for_ref_d_timers_of_a_ref_d_wheel_alone)
{
  unref_and_run(_i, true);
}
END_TEST

START_TEST(ref_takes_unref_back_and_both_are_idempotent)
{
  static test_timer_t timer;

  open_wheel(10, 8);
  test_timer_init(&timer);
  ck_assert_int_eq(uvwheel_timer_has_ref(&timer.base), 1);
  test_timer_start(&timer, 100, 0);
  uvwheel_unref(&wheel);
  uvwheel_unref(&wheel);
  ck_assert_int_eq(is_alive(), 0);
  uvwheel_ref(&wheel);
  ck_assert_int_eq(is_alive(), 1);
  uvwheel_ref(&wheel);
  uvwheel_timer_unref(&timer.base);
  uvwheel_timer_unref(&timer.base);
  ck_assert_int_eq(is_alive(), 0);
  uvwheel_timer_ref(&timer.base);
  ck_assert_int_eq(is_alive(), 1);
  uvwheel_timer_ref(&timer.base);
  uvwheel_timer_unref(&timer.base);
  ck_assert_int_eq(is_alive(), 0);
  uvwheel_unref(&wheel);
  uvwheel_timer_ref(&timer.base);
  ck_assert_int_eq(is_alive(), 0);
  uvwheel_ref(&wheel);
  ck_assert_int_eq(is_alive(), 1);
}
END_TEST

static void
fire(test_timer_t *timer)
{
  (void)timer;
  ck_assert(stays());
}

static const struct {
  const char *name;
  void (*act)(test_timer_t *);
  unsigned fired;
} ends[] = {{"it is stopped", test_timer_stop, 0}, {"it fires", fire, 1}};

/* With one unref'd and one ref'd timer. */
START_TEST(the_last_ref_d_timer_lets_the_loop_end)
{
  static test_timer_t kept, unref_d;

  open_wheel(10, 8);
  test_timer_init(&kept);
  test_timer_init(&unref_d);
  uvwheel_timer_unref(&unref_d.base);
  test_timer_start(&unref_d, 10000, 0);
  ck_assert_int_eq(is_alive(), 0);
  test_timer_start(&kept, 100, 0);
  ck_assert_int_eq(is_alive(), 1);
  ends[_i].act(&kept);
  require_in(ends[_i].name, !is_alive());
  require_in(ends[_i].name, kept.fired == ends[_i].fired);
  ck_assert_uint_eq(uvwheel_count(&wheel), 1);
  test_timer_stop(&unref_d);
  test_timer_start(&kept, 100, 0);
  ck_assert_int_eq(is_alive(), 1);
}
END_TEST

static void
unref_itself(test_timer_t *timer)
{
  uvwheel_timer_unref(&timer->base);
}

static void
ref_itself(test_timer_t *timer)
{
  uvwheel_timer_ref(&timer->base);
}

START_TEST(a_repeating_timer_can_unref_and_ref_itself)
{
  static test_timer_t timer;

  open_wheel(10, 8);
  test_timer_init(&timer);
  timer.then = unref_itself;
  test_timer_start(&timer, 100, 100);
  ck_assert(stays());
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer.base), 1);
  timer.then = ref_itself;
  run_for(150);
  ck_assert_uint_eq(timer.fired, 2);
  ck_assert_int_eq(is_alive(), 1);
  test_timer_stop(&timer);
  ck_assert_int_eq(is_alive(), 0);
}
END_TEST

static const struct {
  const char *name;
  void (*act)(uvwheel_t *);
} wheel_refs[] = {{"a ref'd wheel", uvwheel_ref},
                  {"an unref'd wheel", uvwheel_unref}};

START_TEST(unref_d_timers_fire_while_something_else_keeps_the_loop)
{
  static test_timer_t timers[3];
  int i;

  open_wheel(10, 8);
  test_timer_init_all(timers, 3);
  for (i = 0; i < 3; i++) {
    uvwheel_timer_unref(&timers[i].base);
    test_timer_start(&timers[i], 100, i == 0 ? 50 : 0);
  }
  wheel_refs[_i].act(&wheel);
  run_for(1000);
  require_in(wheel_refs[_i].name, timers[0].fired >= 10);
  require_in(wheel_refs[_i].name, timers[1].fired == 1);
  require_in(wheel_refs[_i].name, timers[2].fired == 1);
  require_in(wheel_refs[_i].name, !is_alive());
  verify_wheel();
}
END_TEST

START_TEST(restarts_and_refreshes_of_an_unref_d_timer_keep_the_loop_s_state)
{
  static test_timer_t timer, other;

  open_wheel(10, 8);
  test_timer_init(&timer);
  test_timer_init(&other);
  uvwheel_timer_unref(&timer.base);
  test_timer_start(&timer, 100, 0);
  test_timer_start(&timer, 200, 300);
  test_timer_start(&timer, 50, 70);
  test_timer_refresh(&timer);
  test_timer_again(&timer);
  ck_assert_int_eq(is_alive(), 0);
  ck_assert_int_eq(uvwheel_timer_has_ref(&timer.base), 0);
  test_timer_start(&other, 5, 0);
  ck_assert_int_eq(is_alive(), 1);
  test_timer_stop(&timer);
  ck_assert_int_eq(is_alive(), 1);
  test_timer_stop(&other);
  ck_assert_int_eq(is_alive(), 0);
}
END_TEST

/* P9. bun#37096 */
START_TEST(an_empty_wheel_does_not_bound_the_poll)
{
  static uv_async_t forever;
  static test_timer_t timers[2];

  open_wheel(10, 8);
  test_timer_init_all(timers, 2);
  if (unrefs[_i].wheel)
    uvwheel_unref(&wheel);
  if (unrefs[_i].first)
    uvwheel_timer_unref(&timers[0].base);
  if (unrefs[_i].second)
    uvwheel_timer_unref(&timers[1].base);
  test_timer_start(&timers[0], 100, 0);
  test_timer_start(&timers[1], 50, 0);
  ck_assert_int_eq(uv_async_init(&loop, &forever, NULL), 0);
  run_for(150);
  require_in(unrefs[_i].name, fired_in_all == 2);
  require_in(unrefs[_i].name, uv_backend_timeout(&loop) == -1);
  test_timer_start(&timers[1], 50, 0);
  test_timer_stop(&timers[1]);
  require_in(unrefs[_i].name, uv_backend_timeout(&loop) == -1);
  uv_close((uv_handle_t *)&forever, NULL);
}
END_TEST

START_TEST(a_closed_wheel_keeps_the_loop_until_its_callback)
{
  static test_timer_t timer;

  open_wheel(10, 8);
  test_timer_init(&timer);
  test_timer_start(&timer, 100, 0);
  uvwheel_unref(&wheel);
  uvwheel_close(&wheel, on_wheel_closed);
  ck_assert_int_eq(is_alive(), 1);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(wheels_closed, 1);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      EACH(the_loop_stays_for_ref_d_timers_of_a_ref_d_wheel_alone, unrefs),
      TEST(ref_takes_unref_back_and_both_are_idempotent),
      EACH(the_last_ref_d_timer_lets_the_loop_end, ends),
      TEST(a_repeating_timer_can_unref_and_ref_itself),
      EACH(unref_d_timers_fire_while_something_else_keeps_the_loop, wheel_refs),
      TEST(restarts_and_refreshes_of_an_unref_d_timer_keep_the_loop_s_state),
      EACH(an_empty_wheel_does_not_bound_the_poll, unrefs),
      TEST(a_closed_wheel_keeps_the_loop_until_its_callback),
  };

  return run_loop_tests("ref", tests, LENGTH(tests));
}
