/* SPDX-License-Identifier: MIT */

/* size-wheel: what it forecasts is what wheels do, and what it recommends is
 * enough. */

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__APPLE__)
#include <malloc/malloc.h>
#define malloc_usable_size malloc_size
#elif defined(__FreeBSD__)
#include <malloc_np.h>
#else
#include <malloc.h>
#endif

#include <uvwheel.h>

#include "../../tools/wheel-forecast.h"
#include "programs.h"
#include "suite.h"

#define START_MS UINT64_C(1000000007)
#define LENGTH(array) (sizeof(array) / sizeof *(array))

static result_t result;

/* ---- A wheel at work ---------------------------------------------------- */

/* A wheel in a time that is made here, and all its timers. */
typedef struct work_s {
  uvwheel_core_t core;
  uvwheel_entry_t *entries;
  uint64_t *timeouts_ms; /* of the entries */
  uint64_t count;
  uint64_t now_ms;
  double refresh_at_ms; /* the next one, of any timer */
  uint64_t wakeups;
} work_t;

/* xorshift: the same numbers everywhere. */
static uint64_t
random_below(uint64_t limit)
{
  static uint64_t state = 88172645463325252;

  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % limit;
}

static void
begin_work(work_t *work, const load_t *load, uint64_t tick_ms, uint32_t slots)
{
  *work = (work_t){.now_ms = START_MS, .refresh_at_ms = INFINITY};
  if (isfinite(load->refresh_ms))
    work->refresh_at_ms = START_MS;
  ck_assert_int_eq(uvwheel_core_init(&work->core, tick_ms, slots, 0), 0);
  for (size_t i = 0; i < load->group_count; i++)
    work->count += load->groups[i].count;
  work->entries = malloc(work->count * sizeof(*work->entries));
  work->timeouts_ms = malloc(work->count * sizeof(*work->timeouts_ms));
  uint64_t next = 0;
  for (size_t i = 0; i < load->group_count; i++)
    for (uint64_t j = 0; j < load->groups[i].count; j++, next++) {
      uint64_t timeout_ms = load->groups[i].timeout_ms;
      work->timeouts_ms[next] = timeout_ms;
      uvwheel_entry_init(&work->entries[next]);
      uvwheel_core_insert(&work->core, &work->entries[next],
                          START_MS + random_below(timeout_ms));
    }
}

static void
end_work(work_t *work)
{
  uvwheel_core_destroy(&work->core);
  free(work->entries);
  free(work->timeouts_ms);
}

/* Refreshes one timer, whichever it be: for each of them that makes refreshes
 * at random, refresh_ms apart on average. */
static void
refresh_one(work_t *work, double refresh_ms)
{
  uint64_t i = random_below(work->count);

  work->now_ms = (uint64_t)work->refresh_at_ms;
  work->refresh_at_ms += refresh_ms / (double)work->count;
  uvwheel_core_postpone(&work->core, &work->entries[i],
                        work->now_ms + work->timeouts_ms[i]);
}

static void
wake_up(work_t *work)
{
  uint64_t budget = UINT64_MAX;
  uvwheel_entry_t *entry;

  work->now_ms = uvwheel_core_next_ms(&work->core);
  work->wakeups++;
  while ((entry = uvwheel_core_expire(&work->core, work->now_ms, &budget)) !=
         NULL)
    uvwheel_core_insert(&work->core, entry,
                        work->now_ms +
                            work->timeouts_ms[entry - work->entries]);
}

static void
work_until(work_t *work, double refresh_ms, uint64_t end_ms)
{
  while (work->now_ms < end_ms)
    if (work->refresh_at_ms < (double)uvwheel_core_next_ms(&work->core))
      refresh_one(work, refresh_ms);
    else
      wake_up(work);
}

/* What the wheel does per second, once it has run for three timeouts and so has
 * forgotten how it began. */
static forecast_t
measure(const load_t *load, uint64_t tick_ms, uint32_t slots)
{
  uint64_t longest_ms = load->groups[load->group_count - 1].timeout_ms;
  work_t work;

  begin_work(&work, load, tick_ms, slots);
  work_until(&work, load->refresh_ms, START_MS + 3 * longest_ms);
  uvwheel_counters_t before = work.core.counters;
  uint64_t wakeups = work.wakeups, begin_ms = work.now_ms;
  work_until(&work, load->refresh_ms, START_MS + 10 * longest_ms);
  uvwheel_counters_t after = work.core.counters;
  double seconds = (double)(work.now_ms - begin_ms) / 1000;
  end_work(&work);
  return (forecast_t){
      .looks = (double)(after.examined - before.examined) / seconds,
      .needed = (double)(after.rescheduled - before.rescheduled +
                         after.expired - before.expired) /
                seconds,
      .wakeups = (double)(work.wakeups - wakeups) / seconds,
  };
}

/* ---- Forecasts ---------------------------------------------------------- */

#define NEVER INFINITY

typedef struct case_s {
  uint64_t tick_ms;
  uint32_t slots;
  double refresh_ms;
  group_t groups[2]; /* the longest timeout last */
} case_t;

static load_t
load_of(const case_t *one)
{
  return (load_t){.groups = one->groups,
                  .group_count = one->groups[1].count > 0 ? 2 : 1,
                  .refresh_ms = one->refresh_ms};
}

static void
assert_within(double forecasted, double measured, double low, double high)
{
  double ratio = forecasted / measured;

  ck_assert_msg(ratio > low && ratio < high, "%.1f instead of %.1f", forecasted,
                measured);
}

static const case_t one_round[] = {
    {100, 512, NEVER, {{10000, 20000}}},
    {100, 512, NEVER, {{30000, 500}}},
    {100, 512, 10000, {{30000, 20000}}},
    {100, 512, 40000, {{30000, 1000}}},
    {100, 1024, 10000, {{60000, 20000}}},
    {500, 2048, 60000, {{300000, 20000}}},
    {10, 4096, 5000, {{10000, 1000}, {30000, 5000}}},
};

START_TEST(in_one_round_the_forecast_is_right_within_a_tenth)
{
  load_t load = load_of(&one_round[_i]);
  uint64_t tick_ms = one_round[_i].tick_ms;
  forecast_t expected = forecast(&load, tick_ms, one_round[_i].slots);
  forecast_t measured = measure(&load, tick_ms, one_round[_i].slots);

  assert_within(expected.looks, measured.looks, 0.9, 1.1);
  assert_within(expected.needed, measured.needed, 0.9, 1.1);
  assert_within(expected.wakeups, measured.wakeups, 0.9, 1.1);
}
END_TEST

static const case_t many_rounds[] = {
    {100, 512, 10000, {{60000, 20000}}},
    {100, 512, 60000, {{60000, 20000}}},
    {100, 64, 10000, {{60000, 20000}}},
    {100, 512, NEVER, {{600000, 20000}}},
    {100, 512, 60000, {{600000, 2000}}},
    {100, 512, 300000, {{600000, 2000}}},
    {100, 512, NEVER, {{86400000, 1000}}},
    {100, 512, NEVER, {{30000, 10000}, {3600000, 10000}}},
    {100, 512, 20000, {{30000, 1000}, {600000, 10000}}},
    {100, 1024, 204800, {{1228800, 100}}},
};

START_TEST(in_many_rounds_it_is_right_within_a_factor_of_two)
{
  load_t load = load_of(&many_rounds[_i]);
  uint64_t tick_ms = many_rounds[_i].tick_ms;
  forecast_t expected = forecast(&load, tick_ms, many_rounds[_i].slots);
  forecast_t measured = measure(&load, tick_ms, many_rounds[_i].slots);

  assert_within(expected.looks, measured.looks, 0.5, 2);
}
END_TEST

static const case_t gathering[] = {
    {100, 512, 1000, {{60000, 20000}}}, {100, 512, 10000, {{600000, 20000}}},
    {1000, 64, 5000, {{600000, 1000}}}, {100, 512, 20, {{51300, 500}}},
    {100, 32, 1600, {{96000, 5000}}},
};

START_TEST(where_timers_gather_it_is_not_too_low)
{
  load_t load = load_of(&gathering[_i]);
  uint64_t tick_ms = gathering[_i].tick_ms;
  forecast_t expected = forecast(&load, tick_ms, gathering[_i].slots);
  forecast_t measured = measure(&load, tick_ms, gathering[_i].slots);

  assert_within(expected.looks, measured.looks, 0.5, INFINITY);
}
END_TEST

START_TEST(memory_is_what_the_wheel_allocates)
{
  load_t load = load_of(&one_round[0]);
  uvwheel_core_t core;

  for (uint32_t slots = 64; slots <= 1u << 16; slots *= 4) {
    forecast_t expected = forecast(&load, 100, slots);
    ck_assert_int_eq(uvwheel_core_init(&core, 100, slots, 0), 0);
    uint64_t allocated = malloc_usable_size(core.slots);
    uvwheel_core_destroy(&core);
    ck_assert_uint_ge(allocated + sizeof(uvwheel_t), expected.wheel_bytes);
    /* The heap may add up to a page. */
    ck_assert_uint_le(allocated, expected.wheel_bytes + 4096);
  }
}
END_TEST

/* Millions of rounds take no longer than a few. */
START_TEST(the_longest_timeouts_are_forecast_as_well)
{
  static const group_t group = {.timeout_ms = UINT64_C(1) << 40, .count = 1000};
  load_t load = {.groups = &group, .group_count = 1, .refresh_ms = NEVER};
  double rounds = (double)group.timeout_ms / (512 * 100);

  forecast_t expected = forecast(&load, 100, 512);
  /* It is a thousand timers that are due at any time of a timeout, so that
   * the hand looks into a slot whenever one of them is. */
  assert_within(expected.looks / expected.needed,
                1 + rounds * expected.wakeups * 100 / 1000, 0.9, 1.1);
  load.refresh_ms = 86400000;
  expected = forecast(&load, recommend_tick_ms(&load),
                      recommend_slots(&load, recommend_tick_ms(&load)));
  ck_assert_double_ge(expected.looks, expected.needed);
}
END_TEST

/* ---- Recommendations ---------------------------------------------------- */

START_TEST(the_recommended_size_does_and_half_of_it_would_not)
{
  load_t load = load_of(&many_rounds[_i]);
  uint64_t tick_ms = recommend_tick_ms(&load);
  uint32_t slots = recommend_slots(&load, tick_ms);
  forecast_t enough = forecast(&load, tick_ms, slots);
  forecast_t half = forecast(&load, tick_ms, slots / 2);
  double spare = fmax(enough.needed / 10, 1000.0 / (double)tick_ms);

  ck_assert_uint_le(tick_ms * 100, load.groups[0].timeout_ms);
  ck_assert(tick_ms * 250 > load.groups[0].timeout_ms || tick_ms == 10000);
  ck_assert_uint_ge(slots, 64);
  ck_assert(enough.looks <= enough.needed + spare);
  ck_assert(slots == 64 || half.looks > half.needed + spare);
}
END_TEST

START_TEST(the_shortest_timeouts_get_the_shortest_tick)
{
  group_t group = {.timeout_ms = 1, .count = 1};
  load_t load = {&group, 1, NEVER};

  ck_assert_uint_eq(recommend_tick_ms(&load), 1);
  ck_assert_uint_eq(recommend_slots(&load, 1), 64);
}
END_TEST

/* ---- The program -------------------------------------------------------- */

START_TEST(it_prints_what_was_asked_for)
{
  run_program("SIZE_WHEEL",
              "--timeout 60s:1000000 --refresh 10s --tick 100 --slots 500",
              &result);
  ck_assert_str_eq(result.err, "");
  ck_assert_int_eq(result.status, 0);
  ck_assert_str_eq(
      result.out,
      "timers      1000000 of 60 s, refreshed every 10 s\n"
      "tick        100 ms\n"
      "slots       512: a round takes 51.2 s\n"
      "memory      130.1 KiB for the wheel, 61.0 MiB for the timers "
      "(145.0 MiB with uv_timer_t)\n"
      "lateness    at most 100 ms\n"
      "looks       35333 per second, 19966 of them needed\n"
      "wake-ups    10 per second\n");
}
END_TEST

START_TEST(bad_arguments_are_refused)
{
  static const struct {
    const char *line, *complaint;
  } cases[] = {
      {"", "no --timeout is given"},
      {"--timeout 60s", "not '60s'"},
      {"--timeout 60y:5", "not '60y'"},
      {"--timeout s:5", "not 's'"},
      {"--timeout 60s:-5", "not '-5'"},
      {"--timeout 60s:", "not ''"},
      {"--timeout 0s:5", "not '0s'"},
      {"--timeout 99999999999999999999d:5", "--timeout takes a number"},
      {"--timeout 60s:5 --tick 2d",
       "--tick takes a time from 1ms to 86400000ms"},
      {"--timeout 60s:5 --slots 99999999", "--slots takes a number"},
      {"--timeout 60s:5 more", "unexpected argument 'more'"},
      {"--nonsense", "nonsense"},
  };

  for (size_t i = 0; i < LENGTH(cases); i++) {
    run_program("SIZE_WHEEL", cases[i].line, &result);
    assert_complaint(&result, 2, cases[i].complaint);
  }
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("size-wheel");
  TCase *tcase = tcase_create("size-wheel");

  suite_add_tcase(suite, tcase);
  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, in_one_round_the_forecast_is_right_within_a_tenth,
                      0, LENGTH(one_round));
  tcase_add_loop_test(tcase, in_many_rounds_it_is_right_within_a_factor_of_two,
                      0, LENGTH(many_rounds));
  tcase_add_loop_test(tcase, where_timers_gather_it_is_not_too_low, 0,
                      LENGTH(gathering));
  tcase_add_test(tcase, the_longest_timeouts_are_forecast_as_well);
  tcase_add_test(tcase, memory_is_what_the_wheel_allocates);
  tcase_add_loop_test(tcase, the_recommended_size_does_and_half_of_it_would_not,
                      0, LENGTH(many_rounds));
  tcase_add_test(tcase, the_shortest_timeouts_get_the_shortest_tick);
  tcase_add_test(tcase, it_prints_what_was_asked_for);
  tcase_add_test(tcase, bad_arguments_are_refused);
  return run_suite(suite);
}
