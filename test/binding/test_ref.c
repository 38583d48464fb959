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

/* What happens to a timer: it is started, (R) with a repeat, stopped, closed,
 * initialised, refreshed, started again, unref'd, ref'd. (f) All have fired,
 * (F) or two before their time. Does anything keep the loop alive then? The
 * second timer is unref'd. */
static const struct {
  char what;
  int timer; /* the first one is 0 */
  bool lives;
} steps[] = {
    {'s', 1, false}, {'s', 0, true},  {'s', 0, true},  {'x', 1, true},
    {'s', 1, true},  {'r', 0, true},  {'x', 0, false}, {'s', 0, true},
    {'s', 2, true},  {'x', 0, true},  {'x', 2, false}, {'s', 0, true},
    {'c', 0, false}, {'i', 0, false}, {'R', 0, true},  {'u', 0, false},
    {'a', 0, false}, {'U', 0, true},  {'x', 0, false}, {'a', 0, true},
    {'s', 2, true},  {'x', 0, true},  {'f', 0, false}, {'s', 1, false},
    {'s', 0, true},  {'F', 0, false}, {'x', 1, false}, {'s', 0, true},
};

static void take_step(char what, test_timer_t *timer) {
  timer->may_be_early = true;
  if (what == 's' || what == 'R')
    test_timer_start(timer, 100, what == 'R' ? 100 : 0);
  else if (what == 'x')
    test_timer_stop(timer);
  else if (what == 'c')
    uvwheel_timer_close(&timer->base);
  else if (what == 'i')
    test_timer_init(timer);
  else if (what == 'r')
    test_timer_refresh(timer);
  else if (what == 'a')
    test_timer_again(timer);
  else if (what == 'u')
    uvwheel_timer_unref(&timer->base);
  else if (what == 'U')
    uvwheel_timer_ref(&timer->base);
  else if (what == 'f')
    run_for(300);
  else
    ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 2), 2);
}

/* A start or a stop matters if no other timer that keeps the loop is active. */
START_TEST(each_step_beside_an_unref_d_timer_leaves_the_loop_as_it_should_be) {
  size_t i;

  open_wheel(10, 8);
  test_timer_init_all(timers, LENGTH(timers));
  uvwheel_timer_unref(&timers[1].base);
  for (i = 0; i < LENGTH(steps); i++) {
    take_step(steps[i].what, &timers[steps[i].timer]);
    ck_assert_msg(is_alive() == steps[i].lives, "step %d", (int)i);
  }
  require(stays());
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(the_loop_stays_for_ref_d_timers_of_a_ref_d_wheel_alone, unrefs),
      EACH(an_empty_wheel_does_not_bound_the_poll, unrefs),
      TEST(each_step_beside_an_unref_d_timer_leaves_the_loop_as_it_should_be),
  };

  return run_loop_tests("ref", tests, LENGTH(tests));
}
