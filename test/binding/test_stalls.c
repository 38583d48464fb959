/* SPDX-License-Identifier: MIT */

/* Time in which nobody listened does not count: peers who speak are not cut
 * off because the loop stood still, and silent ones still are. The comments
 * name the issues of other projects; see docs/promises.md. */

#include "peers.h"

#define TICK_MS 100

/* Each way to be deaf; and whether the callback that blocks calls
 * uv_update_time, whether what is said meanwhile is lost, when it begins and
 * how long it lasts. */
static const struct {
  bool update;
  bool lossy;
  uint64_t begin_ms;
  uint64_t length_ms;
} cases[] = {
    {false, false, 123, 9000},  {true, false, 123, 9000},
    {false, true, 123, 9000},   {true, true, 123, 9000},
    {false, false, 2071, 4000}, {true, false, 2071, 4000},
    {false, true, 2071, 4000},  {true, true, 2071, 4000},
};

static void
expect_only_the_silent_to_fire(uint64_t deaf_ms)
{
  const peer_t *peer;

  for (peer = peers; peer < peers + PEERS; peer++) {
    ck_assert_uint_eq(peer->fired, peer_is_chatty(peer) ? 0 : 1);
    if (peer_is_chatty(peer))
      continue;
    ck_assert_uint_ge(peer->fired_ms, peer->heard_ms + IDLE_MS);
    ck_assert_uint_le(peer->fired_ms,
                      peer->heard_ms + IDLE_MS + TICK_MS + deaf_ms);
  }
}

/* logstash-input-beats#141, bytedance/g3#929, ballerina http#2669. */
START_TEST(exactly_the_silent_half_fires_however_the_loop_was_deaf)
{
  deaf_t way = (deaf_t)(_i % DEAF_WAYS);
  uint64_t length_ms = cases[_i / DEAF_WAYS].length_ms;
  uvwheel_stats_t stats;

  open_wheel(TICK_MS, 64);
  peers_open(cases[_i / DEAF_WAYS].lossy);
  run_for(cases[_i / DEAF_WAYS].begin_ms);
  be_deaf(way, length_ms, cases[_i / DEAF_WAYS].update);
  run_for(2 * length_ms + 2 * IDLE_MS);
  stats = stats_of_wheel();
  ck_assert_uint_eq(stats.stalls, 1);
  ck_assert_uint_le(stats.stall_max_ms, length_ms + TICK_MS);
  ck_assert_uint_eq(stats.deaf_ms, stats.stall_max_ms + 1000);
  expect_only_the_silent_to_fire(stats.deaf_ms);
  peers_close();
}
END_TEST

/* Each is as good as the first, once the loop has been on time again. */
START_TEST(nobody_who_speaks_is_cut_off_by_any_of_several_stalls)
{
  bool lossy = _i % 2;
  uint64_t length_ms;

  open_wheel(TICK_MS, 64);
  peers_open(lossy);
  for (length_ms = 1000; length_ms < 8000; length_ms += 1000) {
    run_for(1500);
    be_deaf((deaf_t)(_i / 2), length_ms, false);
    run_for(1500);
  }
  run_for(IDLE_MS);
  ck_assert_uint_eq(stats_of_wheel().stalls, 7);
  expect_only_the_silent_to_fire(stats_of_wheel().deaf_ms);
  peers_close();
}
END_TEST

/* What uv_timer_t does, too: a wheel that follows the world's clock. */
START_TEST(without_stalls_those_who_speak_are_cut_off)
{
  unsigned cut_off = 0;
  size_t i;

  open_wheel_without_stalls(TICK_MS, 64);
  peers_open(false);
  run_for(123);
  be_deaf(FROZEN_BETWEEN_ITERATIONS, 9000, false);
  run_for(9000);
  for (i = 0; i < PEERS; i++)
    cut_off += peer_is_chatty(&peers[i]) && peers[i].fired != 0;
  ck_assert_uint_eq(cut_off, PEERS / 2);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  ck_assert_uint_eq(stats_of_wheel().deaf_ms, 0);
  peers_close();
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("stalls");
  TCase *trouble = loop_tcase(suite, "peers");

  tcase_add_loop_test(trouble,
                      exactly_the_silent_half_fires_however_the_loop_was_deaf,
                      0, (int)LENGTH(cases) * DEAF_WAYS);
  tcase_add_loop_test(trouble,
                      nobody_who_speaks_is_cut_off_by_any_of_several_stalls, 0,
                      2 * DEAF_WAYS);
  tcase_add_test(trouble, without_stalls_those_who_speak_are_cut_off);
  return run_suite(suite);
}
