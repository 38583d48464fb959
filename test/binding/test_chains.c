/* SPDX-License-Identifier: MIT */

/* Stalls that follow each other (P6): who speaks is not closed, and who is
 * silent is closed once their time is over, however many there are. */

#include "idle_peers.h"
#include "p6.h"

#define TICK_MS UVWHEEL_DEFAULT_TICK_MS

/* UDP peers, each with a uv_timer_t beside its timer. */
#define CROWD(peers, timeout, every, spread)                         \
  {                                                                  \
    .carrier = BY_UDP, .count = (peers), .timeout_ms = (timeout),    \
    .every_ms = (every), .spread_ms = (spread), .has_uv_timer = true \
  }

static const uint64_t lengths_ms[] = {500, 1000, 3000, 10000, 30000};
static const uint64_t gaps_ms[] = {100, 300, 700, 2000, 5000};
static const uint64_t timeouts_ms[] = {3000, 5000, 20000};

/* P6. Scenario 69. One to six freezes: each keeps silent peers for as long as
 * it takes and as much again, at most a second. */
START_TEST(up_to_six_freezes_close_no_live_peer) {
  uint64_t length_ms = lengths_ms[_i / MAX_STALLS / (int)LENGTH(gaps_ms)];
  uint64_t gap_ms = gaps_ms[_i / MAX_STALLS % (int)LENGTH(gaps_ms)], silent_ms;
  peers_options_t crowd = CROWD(50, 0, 1000, 20);
  unsigned freezes = 1 + (unsigned)_i % MAX_STALLS, i;
  uint64_t given_ms = freezes * with_grace(length_ms);
  size_t which;

  for (which = 0; which < LENGTH(timeouts_ms); which++) {
    crowd.timeout_ms = timeouts_ms[which];
    open_wheel(0, 0);
    peers_open(&crowd);
    run_for(10000);
    peers_fall_silent();
    silent_ms = clock_now_ms();
    for (i = 0; i < freezes; i++) {
      freeze_loop(length_ms);
      run_for(gap_ms);
    }
    run_for(crowd.timeout_ms + given_ms + 2000);
    ck_assert_msg(live_peers_closed(false) == 0,
                  "%u of %d ms, %d apart, %d: %u", freezes, (int)length_ms,
                  (int)gap_ms, (int)crowd.timeout_ms, live_peers_closed(false));
    expect_silent_peers_closed("up to six", silent_ms + crowd.timeout_ms - 1000,
                               silent_ms + crowd.timeout_ms + given_ms +
                                   2 * TICK_MS);
    peers_close();
    close_and_forget_wheel();
  }
  rewind_clock();
}
END_TEST

/* Freezes without end. Who speaks in them alone is closed in the end. */
static const struct {
  uint64_t frozen_ms, of_ms, timeout_ms;
  bool are_live_closed;
} endless[] = {
    {3000, 4000, 10000, false},
    {1200, 2000, 10000, true},
    {15000, 20000, 60000, false},
    {600, 1000, 10000, true},
};

/* P6. Scenario 80. Live peers are kept through six freezes, and silent ones
 * for what six give. At that time one more may begin. */
START_TEST(freezes_without_end_keep_silent_peers_for_a_while) {
  uint64_t frozen_ms = endless[_i].frozen_ms, of_ms = endless[_i].of_ms;
  const peers_options_t crowd = CROWD(40, endless[_i].timeout_ms, 1000, 25);
  uint64_t given_ms = MAX_STALLS * with_grace(frozen_ms), phase_ms, due_ms;
  unsigned i, closed = 0;

  for (phase_ms = 1; phase_ms < of_ms; phase_ms += of_ms / 10) {
    open_wheel(0, 0);
    peers_open(&crowd);
    run_for(crowd.timeout_ms + phase_ms);
    peers_fall_silent();
    due_ms = clock_now_ms() + crowd.timeout_ms;
    for (i = 0; i < (crowd.timeout_ms + given_ms) / of_ms + 2; i++) {
      freeze_loop(frozen_ms);
      run_for(of_ms - frozen_ms);
      ck_assert(i >= MAX_STALLS || live_peers_closed(false) == 0);
    }
    closed += live_peers_closed(false);
    ck_assert_uint_le(live_peers_closed(false), live_peers_closed(true));
    expect_silent_peers_closed("without end", due_ms - 1000,
                               due_ms + given_ms + frozen_ms + TICK_MS);
    peers_close();
    close_and_forget_wheel();
  }
  ck_assert_int_eq(closed != 0, endless[_i].are_live_closed);
  rewind_clock();
}
END_TEST

static const unsigned backlogs[] = {0, 4, 10};

/* P6, P8. Scenario 86. After a freeze each iteration takes 300 ms, and a turn
 * puts a tenth of the peers back. */
START_TEST(a_freeze_and_then_a_backlog_close_no_live_peer) {
  const peers_options_t crowd = CROWD(2000, 10000, 2000, 1);
  unsigned i;

  open_wheel_with(&(uvwheel_options_t){.turn_budget = crowd.count / 10});
  peers_open(&crowd);
  run_for(20000);
  freeze_loop(11000);
  for (i = 0; i < backlogs[_i]; i++) {
    uv_run(&loop, UV_RUN_NOWAIT);
    virtual_time_advance_ms(300);
  }
  run_for(crowd.timeout_ms + 15000);
  ck_assert_uint_ge(live_peers_closed(true), crowd.count * 9 / 10);
  ck_assert_uint_eq(live_peers_closed(false), 0);
  peers_close();
}
END_TEST

static const uint64_t phases_ms[] = {0, 1, 13, 37, 50, 71, 96, 99};

/* P6. Scenario 86. A peer may be put back to a time that is over. */
START_TEST(three_blocks_in_a_row_close_no_live_peer) {
  const peers_options_t crowd = CROWD(24, 1000, 300, 13);

  open_wheel(0, 0);
  peers_open(&crowd);
  run_for(3000 + phases_ms[_i]);
  freeze_loop(1600);
  run_for(3);
  freeze_loop(700);
  run_for(71);
  freeze_loop(700);
  run_for(5000);
  ck_assert_uint_eq(live_peers_closed(true), crowd.count);
  ck_assert_uint_eq(live_peers_closed(false), 0);
  peers_close();
}
END_TEST

/* A number from `from` to before `to`, the same in each run of the test. */
static uint64_t random_ms(uint64_t from, uint64_t to) {
  static uint64_t seed = 55;

  seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
  return from + (seed >> 33) % (to - from);
}

/* Stalls in a row, each before the time is over that the last one gave, of more
 * than a second each. Returns how many live peers were closed; adds how many
 * uv_timer_t would have closed. */
static unsigned live_closed_in_chain(uint64_t stalls, unsigned *uv_closed) {
  const peers_options_t crowd = CROWD(40, 5000, 1000, 25);
  unsigned closed;

  open_wheel(0, 0);
  peers_open(&crowd);
  run_for(random_ms(10000, 20000));
  for (; stalls > 0; stalls--) {
    freeze_loop(random_ms(1000, 5000));
    run_for(random_ms(1, 1000));
  }
  run_for(2 * crowd.timeout_ms);
  closed = live_peers_closed(false);
  *uv_closed += live_peers_closed(true);
  peers_close();
  close_and_forget_wheel();
  return closed;
}

/* P6. 200 rows of 1 to 20 stalls. As six add up, none of up to six closes a
 * live peer, and the others far fewer than uv_timer_t. */
START_TEST(random_chains_close_fewer_live_peers_than_uv_timers_do) {
  unsigned closed, all_closed = 0, uv_closed = 0;
  uint64_t stalls;
  int i;

  for (i = 0; i < 200; i++) {
    stalls = random_ms(1, 21);
    closed = live_closed_in_chain(stalls, &uv_closed);
    ck_assert_msg(closed == 0 || stalls > MAX_STALLS, "%u of a chain of %d",
                  closed, (int)stalls);
    all_closed += closed;
    rewind_clock();
  }
  ck_assert_msg(all_closed < uv_closed / 2, "%u, %u", all_closed, uv_closed);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      {up_to_six_freezes_close_no_live_peer, 0,
       MAX_STALLS * LENGTH(lengths_ms) * LENGTH(gaps_ms)},
      EACH(freezes_without_end_keep_silent_peers_for_a_while, endless),
      EACH(a_freeze_and_then_a_backlog_close_no_live_peer, backlogs),
      EACH(three_blocks_in_a_row_close_no_live_peer, phases_ms),
      TEST(random_chains_close_fewer_live_peers_than_uv_timers_do),
  };

  return run_loop_tests("chains", tests, LENGTH(tests));
}
