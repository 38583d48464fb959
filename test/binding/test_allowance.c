/* SPDX-License-Identifier: MIT */

/* Stalls are forgiven while an allowance lasts (P6). It is a minute at first
 * and at most, and grows by a sixteenth of the loop's time. So a silent peer is
 * closed however often the loop is blocked. */

#include "idle_peers.h"

#include "p6.h"

#define TICK_MS 10
#define TIMEOUT_MS UINT64_C(5000)
#define MINUTE_MS UINT64_C(60000)

/* Until then a silent peer is closed, if no stall is longer than 9 s. */
static uint64_t
latest_ms(uint64_t timeout_ms)
{
  return timeout_ms + timeout_ms / 15 + 75000;
}

static const peers_options_t half_silent = {.carrier = BY_PIPE,
                                            .count = 20,
                                            .timeout_ms = TIMEOUT_MS,
                                            .every_ms = 500,
                                            .is_half_silent = true};

static void
expect_the_silent_half_closed(const char *name, uint64_t opened_ms)
{
  expect_silent_peers_closed(name, opened_ms + TIMEOUT_MS,
                             opened_ms + latest_ms(TIMEOUT_MS));
}

/* ---- A loop that is blocked again and again ------------------------------ */

static const struct {
  const char *name;
  uint64_t busy_ms;
  uint64_t idle_ms;
  bool update;
} paces[] = {
    {"600 of 900 ms", 600, 300, false}, {"the same, updating", 600, 300, true},
    {"300 of 550 ms", 300, 250, false}, {"the same, updating", 300, 250, true},
    {"1.0 of 1.9 s", 1000, 900, false}, {"the same, updating", 1000, 900, true},
    {"5 of 6 s", 5000, 1000, true},     {"260 of 261 ms", 260, 1, true},
};

#define REQUESTS 8u

static uv_timer_t blocker, client;
static uvwheel_timer_t requests[REQUESTS];
static int pace;
static unsigned requests_begun;

static void
on_blocker(uv_timer_t *timer)
{
  virtual_time_advance_ms(paces[pace].busy_ms);
  if (paces[pace].update)
    uv_update_time(&loop);
  /* From its end on. */
  uv_timer_start(timer, on_blocker,
                 clock_now_ms() + paces[pace].idle_ms - uv_now(&loop), 0);
}

static void
on_request(uvwheel_timer_t *timer)
{
  (void)timer;
}

/* Requests begin every 10 ms, with a timeout of 50 ms; every second one is
 * answered in time. */
static void
on_client(uv_timer_t *timer)
{
  unsigned request = requests_begun++ % REQUESTS;

  (void)timer;
  ck_assert_int_eq(uvwheel_timer_start(&requests[request], on_request, 50, 0),
                   0);
  if (request % 2 != 0)
    (void)uvwheel_timer_stop(&requests[(request + REQUESTS - 2) % REQUESTS]);
}

static void
begin_pace(int which)
{
  unsigned i;

  pace = which;
  requests_begun = 0;
  for (i = 0; i < REQUESTS; i++)
    ck_assert_int_eq(uvwheel_timer_init(&wheel, &requests[i]), 0);
  begin_uv_timer(&blocker, on_blocker, paces[pace].idle_ms, 0);
  begin_uv_timer(&client, on_client, 10, 10);
}

static uint64_t idler_closed_ms;

static void
on_idler(uvwheel_timer_t *timer)
{
  (void)timer;
  idler_closed_ms = clock_now_ms();
}

/* P6. Scenarios 23 and 26. Beside the peers there is a silent one with a
 * timeout of ten minutes. */
START_TEST(no_stalls_keep_silent_peers_for_ever)
{
  const uint64_t long_ms = 600000;
  uint64_t opened_ms = START_MS, busy_ms = paces[_i].busy_ms, elapsed_ms;
  static uvwheel_timer_t idler;

  open_wheel(TICK_MS, 512);
  peers_open(&half_silent);
  idler_closed_ms = NEVER;
  begin_timer(&idler, on_idler, long_ms, 0);
  begin_pace(_i);
  run_until(opened_ms + latest_ms(long_ms) + 1000);
  elapsed_ms = clock_now_ms() - opened_ms;
  expect_the_silent_half_closed(paces[_i].name, opened_ms);
  ck_assert_uint_ge(idler_closed_ms, opened_ms + long_ms);
  ck_assert_uint_le(idler_closed_ms, opened_ms + latest_ms(long_ms));
  /* What the allowance held and got, and the stall that used it up. */
  ck_assert_uint_le(stats_of_wheel().set_back_ms,
                    ALLOWANCE_MS + elapsed_ms / INFLOW + busy_ms + 5000);
  peers_close();
}
END_TEST

#define LONGEST_MS INT64_C(9000)
#define SHORTEST_MS INT64_C(300)

/* What is left of the allowance, by what was set back. */
static int64_t
allowance_left_ms(uint64_t opened_ms)
{
  int64_t inflow_ms = (int64_t)(uv_now(&loop) - opened_ms) / INFLOW;

  return ALLOWANCE_MS + inflow_ms - (int64_t)stats_of_wheel().set_back_ms;
}

/* Stalls use the allowance up, but for a little, and that the longest one
 * takes, right before the timer would be closed: nothing keeps it open for
 * longer. */
static void
on_adversary(uv_timer_t *timer)
{
  const uvwheel_timer_t *idler = timer->data;
  int64_t left_ms = allowance_left_ms(START_MS);

  if (left_ms > 2 * SHORTEST_MS)
    virtual_time_advance_ms(SHORTEST_MS);
  else if (left_ms > 0 && uvwheel_timer_get_due_in(idler) < 60)
    virtual_time_advance_ms(LONGEST_MS);
}

/* P6 */
START_TEST(the_allowance_lasts_no_longer_than_its_bound)
{
  static const uint64_t timeouts_ms[] = {5000, 30000, 600000};
  uint64_t timeout_ms = timeouts_ms[_i], opened_ms = clock_now_ms();
  static uvwheel_timer_t idler, beat;

  open_wheel(TICK_MS, 512);
  idler_closed_ms = NEVER;
  begin_timer(&beat, on_request, 10, 10);
  begin_timer(&idler, on_idler, timeout_ms, 0);
  begin_uv_timer(&blocker, on_adversary, 50, 50);
  blocker.data = &idler;
  run_for(latest_ms(timeout_ms));
  ck_assert_uint_le(idler_closed_ms, opened_ms + latest_ms(timeout_ms));
  ck_assert_uint_gt(idler_closed_ms, opened_ms + timeout_ms + MINUTE_MS);
  ck_assert_uint_ge(stats_of_wheel().stall_max_ms, LONGEST_MS);
}
END_TEST

/* ---- A loop that is run once per frame ----------------------------------- */

static const struct {
  const char *name;
  uv_run_mode mode;
  uint64_t frame_ms;
  uint64_t tick_ms;
} frames[] = {
    {"3 times NOWAIT per 300 ms, tick 1", UV_RUN_NOWAIT, 300, 1},
    {"3 times NOWAIT per 300 ms, tick 100", UV_RUN_NOWAIT, 300, 100},
    {"3 times NOWAIT per 500 ms, tick 1", UV_RUN_NOWAIT, 500, 1},
    {"3 times NOWAIT per 500 ms, tick 10", UV_RUN_NOWAIT, 500, 10},
    {"3 times NOWAIT per 500 ms, tick 100", UV_RUN_NOWAIT, 500, 100},
    {"3 times NOWAIT per s, tick 1", UV_RUN_NOWAIT, 1000, 1},
    {"3 times NOWAIT per s, tick 10", UV_RUN_NOWAIT, 1000, 10},
    {"3 times ONCE per 300 ms, tick 1", UV_RUN_ONCE, 300, 1},
    {"3 times ONCE per 500 ms, tick 10", UV_RUN_ONCE, 500, 10},
    {"3 times ONCE per s, tick 10", UV_RUN_ONCE, 1000, 10},
    {"3 times ONCE per s, tick 100", UV_RUN_ONCE, 1000, 100},
};

/* P6. Scenario 27. */
START_TEST(a_loop_that_is_run_per_frame_closes_silent_peers)
{
  uint64_t opened_ms = START_MS, frame_ms = frames[_i].frame_ms, next_ms;
  static uvwheel_timer_t beat; /* so that something is always due */
  unsigned i;

  open_wheel(frames[_i].tick_ms, 512);
  peers_open(&half_silent);
  begin_timer(&beat, on_request, 10, 10);
  for (next_ms = opened_ms; next_ms < opened_ms + 300000; next_ms += frame_ms) {
    if (clock_now_ms() < next_ms)
      virtual_time_advance_ms(next_ms - clock_now_ms());
    for (i = 0; i < 3; i++)
      uv_run(&loop, frames[_i].mode);
  }
  expect_the_silent_half_closed(frames[_i].name, opened_ms);
  peers_close();
}
END_TEST

/* ---- The allowance ------------------------------------------------------- */

/* Is a stall of that length forgiven now? */
static bool
is_forgiven(uint64_t length_ms)
{
  static uvwheel_timer_t timer;
  uint64_t before_ms = stats_of_wheel().set_back_ms;

  begin_timer(&timer, on_request, 1, 0);
  virtual_time_advance_ms(length_ms);
  run_for(2000);
  ck_assert_int_eq(uvwheel_timer_stop(&timer), 0);
  if (stats_of_wheel().set_back_ms == before_ms)
    return false;
  ck_assert_uint_ge(stats_of_wheel().set_back_ms - before_ms,
                    length_ms - TICK_MS);
  ck_assert_uint_le(stats_of_wheel().set_back_ms - before_ms,
                    length_ms + MAX_GRACE_MS);
  return true;
}

/* P6 */
START_TEST(a_stall_is_forgiven_whole_and_leaves_a_minute_of_debt_at_most)
{
  open_wheel(TICK_MS, 512);
  ck_assert(is_forgiven(10 * 3600 * 1000));
  ck_assert_uint_eq(stats_of_wheel().allowance_ms, 0);
  run_for(8 * MINUTE_MS); /* half a minute is paid back */
  ck_assert(!is_forgiven(5000));
  ck_assert_uint_eq(stats_of_wheel().stalls_unforgiven, 1);
  run_for(12 * MINUTE_MS);
  ck_assert(is_forgiven(5000));
  ck_assert(is_forgiven(2 * MINUTE_MS)); /* the debt does not add up */
  run_for(17 * MINUTE_MS);
  ck_assert(is_forgiven(5000));
  rewind_clock();
}
END_TEST

/* P6 */
START_TEST(the_allowance_holds_a_minute_and_no_more)
{
  unsigned forgiven = 0;

  open_wheel(TICK_MS, 512);
  run_for(24 * 60 * MINUTE_MS);
  ck_assert_uint_eq(stats_of_wheel().allowance_ms, MINUTE_MS);
  while (forgiven < 100 && is_forgiven(4000))
    forgiven++;
  /* With or without the second that is given to peers. */
  ck_assert_uint_ge(forgiven, 12);
  ck_assert_uint_le(forgiven, 17);
  rewind_clock();
}
END_TEST

static const struct {
  const char *name;
  hold_t hold;
} long_holds[] = {
    {"a loop that is frozen between iterations", FROZEN_BETWEEN_ITERATIONS},
    {"a uv_timer callback that blocks", HELD_BY_UV_TIMER},
};

/* P6 */
START_TEST(a_used_up_allowance_cuts_no_peer_off_whose_bytes_wait)
{
  const peers_options_t crowd = {
      .carrier = BY_PIPE, .count = 200, .timeout_ms = 3000, .every_ms = 500};
  uint64_t length_ms, from_ms;

  open_wheel(TICK_MS, 512);
  ck_assert(is_forgiven(2 * MINUTE_MS));
  ck_assert(!is_forgiven(5000));
  for (length_ms = 1000; length_ms <= 12000; length_ms += 500) {
    peers_open(&crowd);
    from_ms = clock_now_ms() + 1234;
    hold_loop(long_holds[_i].hold, from_ms, from_ms + length_ms, true);
    run_until(from_ms + length_ms + 4000);
    ck_assert_msg(peers_closed() == 0, "%s for %d ms: %u of 200",
                  long_holds[_i].name, (int)length_ms, peers_closed());
    peers_close();
  }
}
END_TEST

/* P6. It takes the loop ten polls and a quarter of a second to hear all that
 * waits; one of these polls counts with the hold. */
START_TEST(a_stall_is_counted_once_however_much_waits_after_it)
{
  const peers_options_t crowd = {.carrier = BY_UDP,
                                 .count = 2000,
                                 .timeout_ms = 3000,
                                 .every_ms = 1000,
                                 .hearing_ns = 125000};
  static const uint64_t ticks_ms[] = {1, 10, 100, 1000};
  uint64_t from_ms;

  open_wheel(ticks_ms[_i], 512);
  peers_open(&crowd);
  from_ms = clock_now_ms() + 2300;
  hold_loop(HELD_BY_UV_TIMER, from_ms, from_ms + 2000, false);
  run_until(from_ms + 10000);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_le(stats_of_wheel().set_back_ms, 2000 + 50 + MAX_GRACE_MS);
  ck_assert_uint_eq(peers_closed(), 0);
  peers_close();
}
END_TEST

/* By an hour: if a negative time flowed in, the allowance would be full for
 * ever. */
START_TEST(a_clock_that_steps_back_fills_no_allowance)
{
  uint64_t opened_ms;

  set_clock_ms(100000000);
  open_wheel(TICK_MS, 512);
  ck_assert(is_forgiven(2 * MINUTE_MS));
  step_back_loop_ms(60 * MINUTE_MS);
  ck_assert(!is_forgiven(5000));
  ck_assert(!is_forgiven(5000)); /* by a loop that has polled since */
  peers_open(&half_silent);
  opened_ms = clock_now_ms();
  begin_pace(0);
  run_until(opened_ms + 1200000);
  expect_the_silent_half_closed(paces[0].name, opened_ms);
  peers_close();
  rewind_clock();
}
END_TEST

/* P6. By an hour, while it is full, and once 10 s were forgiven. */
START_TEST(a_clock_that_steps_back_leaves_the_allowance_as_it_is)
{
  set_clock_ms(100000000);
  open_wheel(TICK_MS, 512);
  virtual_time_step_back_ms(60 * MINUTE_MS);
  run_for(1);
  ck_assert_uint_eq(stats_of_wheel().allowance_ms, MINUTE_MS);
  ck_assert(is_forgiven(9000));
  virtual_time_step_back_ms(60 * MINUTE_MS);
  run_for(1);
  ck_assert_uint_eq(stats_of_wheel().allowance_ms / 1000, 50);
  ck_assert(is_forgiven(5000));
  rewind_clock();
}
END_TEST

static int
start_again(uvwheel_timer_t *timer)
{
  return uvwheel_timer_start(timer, on_request, 100, 100);
}

static int
stop_and_start(uvwheel_timer_t *timer)
{
  ck_assert_int_eq(uvwheel_timer_stop(timer), 0);
  return start_again(timer);
}

static int (*const begins[])(uvwheel_timer_t *timer) = {
    stop_and_start, start_again, uvwheel_timer_again, uvwheel_timer_refresh};

START_TEST(a_clock_that_steps_back_below_what_was_forgiven_is_followed)
{
  static uvwheel_timer_t timer;
  uint64_t begin_ms;

  set_clock_ms(10000);
  open_wheel(TICK_MS, 512);
  ck_assert(is_forgiven(5000));
  begin_timer(&timer, on_request, 100, 100);
  set_clock_ms(3000);
  ck_assert_uint_le(uvwheel_now(&wheel), uv_now(&loop));
  begin_ms = clock_now_ms();
  ck_assert_int_eq(begins[_i](&timer), 0);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer), 100);
  virtual_time_advance_ms(50); /* before the next poll */
  run_for(50);
  ck_assert_uint_eq(stats_of_wheel().fired, 1); /* in is_forgiven */
  run_for(2 * TICK_MS);
  ck_assert_uint_eq(stats_of_wheel().fired, 2);
  ck_assert_uint_le(clock_now_ms(), begin_ms + 100 + 2 * TICK_MS);
  rewind_clock();
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      {the_allowance_lasts_no_longer_than_its_bound, 0, 3},
      EACH(no_stalls_keep_silent_peers_for_ever, paces),
      EACH(a_loop_that_is_run_per_frame_closes_silent_peers, frames),
      TEST(a_stall_is_forgiven_whole_and_leaves_a_minute_of_debt_at_most),
      TEST(the_allowance_holds_a_minute_and_no_more),
      EACH(a_used_up_allowance_cuts_no_peer_off_whose_bytes_wait, long_holds),
      {a_stall_is_counted_once_however_much_waits_after_it, 0, 4},
      TEST(a_clock_that_steps_back_fills_no_allowance),
      TEST(a_clock_that_steps_back_leaves_the_allowance_as_it_is),
      EACH(a_clock_that_steps_back_below_what_was_forgiven_is_followed, begins),
  };

  return run_loop_tests("allowance", tests, LENGTH(tests));
}
