/* SPDX-License-Identifier: MIT */

/* Ref and unref: what keeps the loop alive, and what bounds its poll. */

#include "support.h"

static int is_alive(void) {
  return uv_loop_alive(&loop) != 0;
}

/* Runs the loop until nothing keeps it: did it wait for the timers? */
static bool stays(void) {
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

static test_timer_t timers[3];

static void unref_as(int row) {
  const bool unref_timers[] = {unrefs[row].first, unrefs[row].second};
  int i;

  for (i = 0; i < 2; i++) {
    if (unref_timers[i])
      uvwheel_timer_unref(&timers[i].base);
    require_in(unrefs[row].name,
               uvwheel_timer_has_ref(&timers[i].base) == !unref_timers[i]);
  }
  if (unrefs[row].wheel)
    uvwheel_unref(&wheel);
  require_in(unrefs[row].name, uvwheel_has_ref(&wheel) == !unrefs[row].wheel);
}

/* Scenario 17. node#16105, libuv#4048. */
START_TEST(the_loop_stays_for_ref_d_timers_of_a_ref_d_wheel_alone) {
  const char *name = unrefs[_i].name;

  open_wheel(10, 8);
  begin_test_timer(&timers[0], 100, 0);
  begin_test_timer(&timers[1], 100, 0);
  unref_as(_i);
  require_in(name, is_alive() == unrefs[_i].stays);
  begin_test_timer(&timers[2], 100, 0);
  require_in(name, is_alive() == !unrefs[_i].wheel);
  test_timer_stop(&timers[2]);
  require_in(name, stays() == unrefs[_i].stays);
}
END_TEST

/* P9. Scenario 16. bun#37096, bun#9286, pulsar#6414. */
START_TEST(an_empty_wheel_does_not_bound_the_poll) {
  static uv_async_t forever;

  open_wheel(10, 8);
  test_timer_init_all(timers, 2);
  unref_as(_i);
  test_timer_start(&timers[0], 100, 0);
  test_timer_start(&timers[1], 50, 0);
  ck_assert_int_eq(uv_async_init(&loop, &forever, NULL), 0);
  run_for(150);
  require_in(unrefs[_i].name, fired_in_all == 2);
  require_in(unrefs[_i].name, uv_backend_timeout(&loop) == -1);
  test_timer_start(&timers[1], 50, 0);
  test_timer_stop(&timers[1]);
  require_in(unrefs[_i].name, uv_backend_timeout(&loop) == -1);
}
END_TEST

static void stop_first(void) {
  test_timer_stop(&timers[0]);
}

static void start_first(void) {
  test_timer_start(&timers[0], 100, 0);
}

static void repeat_first(void) {
  test_timer_start(&timers[0], 100, 100);
}

static void close_first(void) {
  uvwheel_timer_close(&timers[0].base);
}

static void init_first(void) {
  test_timer_init(&timers[0]);
}

static void refresh_first(void) {
  test_timer_refresh(&timers[0]);
}

static void again_first(void) {
  test_timer_again(&timers[0]);
}

static void unref_first(void) {
  uvwheel_timer_unref(&timers[0].base);
}

static void ref_first(void) {
  uvwheel_timer_ref(&timers[0].base);
}

static void stop_second(void) {
  test_timer_stop(&timers[1]);
}

static void start_second(void) {
  test_timer_start(&timers[1], 100, 0);
}

static void start_third(void) {
  test_timer_start(&timers[2], 100, 0);
}

static void stop_third(void) {
  test_timer_stop(&timers[2]);
}

static void fire_all(void) {
  run_for(300);
}

static void fire_soonest(void) {
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 2), 2);
}

/* What happens one after the other, and whether the loop lives then. The second
 * timer is unref'd, and active at first. */
static const struct {
  const char *name;
  void (*act)(void);
  bool lives;
} steps[] = {
    {"the unref'd one alone", start_second, false},
    {"a first one", start_first, true},
    {"restarted", start_first, true},
    {"the unref'd one is stopped", stop_second, true},
    {"and started", start_second, true},
    {"refreshed", refresh_first, true},
    {"the last one that is not unref'd is stopped", stop_first, false},
    {"started", start_first, true},
    {"a third one", start_third, true},
    {"the first one is stopped", stop_first, true},
    {"the third one", stop_third, false},
    {"the first one is started", start_first, true},
    {"closed", close_first, false},
    {"initialised", init_first, false},
    {"a repeat", repeat_first, true},
    {"unref'd", unref_first, false},
    {"again", again_first, false},
    {"ref'd", ref_first, true},
    {"stopped", stop_first, false},
    {"again, and active", again_first, true},
    {"a third one beside it", start_third, true},
    {"the repeat is stopped", stop_first, true},
    {"all have fired", fire_all, false},
    {"the unref'd one is started", start_second, false},
    {"the first one beside it", start_first, true},
    {"both have fired before their time", fire_soonest, false},
    {"the unref'd one is stopped, and the wheel empty", stop_second, false},
    {"the first one alone", start_first, true},
};

/* A start and a stop change what keeps the loop alive only if no other timer
 * that is not unref'd is active. */
START_TEST(each_step_beside_an_unref_d_timer_leaves_the_loop_as_it_should_be) {
  size_t i;

  open_wheel(10, 8);
  test_timer_init_all(timers, LENGTH(timers));
  uvwheel_timer_unref(&timers[1].base);
  for (i = 0; i < LENGTH(steps); i++) {
    timers[0].may_be_early = timers[1].may_be_early = true;
    steps[i].act();
    require_in(steps[i].name, is_alive() == steps[i].lives);
  }
  require(stays());
}
END_TEST

START_TEST(a_closed_wheel_keeps_the_loop_until_its_callback) {
  static test_timer_t timer;

  open_wheel(10, 8);
  begin_test_timer(&timer, 100, 0);
  uvwheel_unref(&wheel);
  uvwheel_close(&wheel, on_wheel_closed);
  ck_assert_int_eq(is_alive(), 1);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(wheels_closed, 1);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(the_loop_stays_for_ref_d_timers_of_a_ref_d_wheel_alone, unrefs),
      EACH(an_empty_wheel_does_not_bound_the_poll, unrefs),
      TEST(each_step_beside_an_unref_d_timer_leaves_the_loop_as_it_should_be),
      TEST(a_closed_wheel_keeps_the_loop_until_its_callback),
  };

  return run_loop_tests("ref", tests, LENGTH(tests));
}
