/* SPDX-License-Identifier: MIT */

/* What a start promises, and what expect and refresh gain (P6). A timer that
 * was only started, also by again, fires when a uv_timer_t beside it does, but
 * for a tick, however the loop was held. test_chains.c has several stalls. */

#include <stdlib.h>

#include "idle_peers.h"

#define TICK_MS UVWHEEL_DEFAULT_TICK_MS

/* ---- What holds the loop ------------------------------------------------- */

/* Nobody else is there. It is frozen, or held by a uv_timer_t. */
static const int ways[] = {0, 2, 3};

#define WAYS (int)LENGTH(ways)

static void open_wheel_alone(void) {
  open_wheel(0, 0);
  peers_open(&(peers_options_t){.count = 0});
}

static void hold_at(int which, uint64_t at_ms, uint64_t ms) {
  const way_to_hold_t *how = &ways_to_hold[ways[which]];

  hold_loop(how->hold, at_ms, at_ms + ms, how->update);
  run_for(excess(at_ms, clock_now_ms()));
  run_for(1);
}

/* ---- What we send -------------------------------------------------------- */

#define SENDERS 200u

/* How a sender goes on: its timer repeats, or its callback starts it or calls
 * again. Some pings are sent when nothing else was: whatever is sent calls
 * again. One whose timer is refreshed after each start has misunderstood what a
 * refresh says. */
typedef enum way_e {
  REPEATS,
  STARTS_ANEW,
  RE_ARMS,
  RE_ARMS_AT_EACH_SEND,
  HAS_MISUNDERSTOOD
} way_t;

typedef struct sender_s {
  uvwheel_timer_t timer;
  uv_timer_t uv_timer;
  uint64_t sent_ms, uv_sent_ms; /* last                     */
  uint64_t gap_ms, uv_gap_ms;   /* the longest, between two */
} sender_t;

static sender_t *senders;
static way_t way;
static uint64_t every_ms;

static bool calls_again(void) {
  return way == RE_ARMS || way == RE_ARMS_AT_EACH_SEND;
}

static void note_sent(uint64_t *sent_ms, uint64_t *gap_ms) {
  *gap_ms = max_of(*gap_ms, clock_now_ms() - *sent_ms);
  *sent_ms = clock_now_ms();
}

static void on_send(uvwheel_timer_t *timer) {
  sender_t *sender = timer->data;

  note_sent(&sender->sent_ms, &sender->gap_ms);
  if (calls_again())
    (void)uvwheel_timer_again(timer);
  else if (way != REPEATS)
    (void)uvwheel_timer_start(timer, on_send, every_ms, 0);
  if (way == HAS_MISUNDERSTOOD)
    (void)uvwheel_timer_refresh(timer);
}

static void on_uv_send(uv_timer_t *timer) {
  sender_t *sender = timer->data;

  note_sent(&sender->uv_sent_ms, &sender->uv_gap_ms);
  if (calls_again())
    (void)uv_timer_again(timer);
  else if (way != REPEATS)
    (void)uv_timer_start(timer, on_uv_send, every_ms, 0);
}

/* They send first at moments that are spread over the interval. */
static void begin_senders(void) {
  uint64_t first_ms, repeat = way == REPEATS || calls_again() ? every_ms : 0;
  sender_t *sender;

  senders = calloc(SENDERS, sizeof *senders);
  ck_assert_ptr_nonnull(senders);
  for (sender = senders; sender < senders + SENDERS; sender++) {
    first_ms = (uint64_t)(sender - senders) * every_ms / SENDERS;
    sender->sent_ms = sender->uv_sent_ms = clock_now_ms();
    sender->timer.data = sender->uv_timer.data = sender;
    begin_timer(&sender->timer, on_send, first_ms, repeat);
    begin_uv_timer(&sender->uv_timer, on_uv_send, first_ms, repeat);
  }
}

/* Each sends something else, one after the other. */
static void send_other_things(void) {
  unsigned i;

  for (i = 0; i < SENDERS; i++) {
    run_for(every_ms / SENDERS);
    on_send(&senders[i].timer);
    on_uv_send(&senders[i].uv_timer);
  }
}

static void end_senders(void) {
  sender_t *sender;

  for (sender = senders; sender < senders + SENDERS; sender++) {
    uvwheel_timer_close(&sender->timer);
    uv_close((uv_handle_t *)&sender->uv_timer, NULL);
  }
  peers_close();
  free(senders);
}

/* The other end gives up after `limit_ms`, which a freeze leaves time for. */
static const struct {
  const char *name;
  way_t way;
  uint64_t every_ms, limit_ms, frozen_ms;
  uint64_t of_ms; /* it is frozen again and again; 0: once */
} sent[] = {
    /* Scenario 66. */
    {"pings of 25 s, clients leave after 45 s", REPEATS, 25000, 45000, 19500,
     0},
    {"pings of 1 s, clients leave after 3 s", REPEATS, 1000, 3000, 1700, 0},
    {"the same, frozen for longer", REPEATS, 1000, 3000, 1850, 0},
    /* Scenario 68. */
    {"a watchdog of 10 s", REPEATS, 5000, 10000, 4900, 0},
    {"a watchdog of 10 s that is started", STARTS_ANEW, 5000, 10000, 4900, 0},
    {"a heartbeat behind a proxy of 15 s", REPEATS, 10000, 15000, 4500, 0},
    {"a keep-alive of 30 s, a broker of 45 s", STARTS_ANEW, 30000, 45000, 14800,
     0},
    {"retries of 400 ms", STARTS_ANEW, 400, 1000, 300, 0},
    {"retries of 400 ms, after 3 s", STARTS_ANEW, 400, 3500, 3000, 0},
    /* Scenario 89. */
    {"pings when nothing else was sent", RE_ARMS_AT_EACH_SEND, 2000, 4000, 1900,
     2500},
    {"the same, frozen once", RE_ARMS_AT_EACH_SEND, 25000, 45000, 19500, 0},
    {"a keep-alive, re-armed at each send", RE_ARMS_AT_EACH_SEND, 30000, 45000,
     14500, 0},
    {"an interval that re-arms itself", RE_ARMS, 5000, 7000, 1900, 0},
    {"the same, frozen again and again", RE_ARMS, 2000, 4000, 1900, 2500},
    /* A refresh says that a peer was heard, which is not so here. */
    {"refreshed pings", HAS_MISUNDERSTOOD, 25000, 45000, 19500, 0},
    {"a refreshed watchdog", HAS_MISUNDERSTOOD, 5000, 10000, 4900, 0},
    {"a refreshed keep-alive", HAS_MISUNDERSTOOD, 30000, 45000, 14800, 0},
};

/* P6. From any phase on. */
START_TEST(what_we_send_comes_when_a_uv_timer_would_send_it) {
  uint64_t frozen_ms = sent[_i / WAYS].frozen_ms, of_ms = sent[_i / WAYS].of_ms;
  const char *name = sent[_i / WAYS].name;
  uint64_t longest_ms;
  unsigned given_up = 0, i;

  way = sent[_i / WAYS].way;
  every_ms = sent[_i / WAYS].every_ms;
  longest_ms = every_ms + frozen_ms + TICK_MS;
  open_wheel_alone();
  begin_senders();
  run_for(2 * every_ms);
  if (way == RE_ARMS_AT_EACH_SEND)
    send_other_things();
  for (i = 0; i < (of_ms != 0 ? 20 : 1); i++) {
    hold_at(_i % WAYS, clock_now_ms() + 50, frozen_ms);
    run_for(excess(of_ms, 50 + frozen_ms));
  }
  run_for(4 * every_ms);
  for (i = 0; i < SENDERS; i++) {
    given_up += senders[i].gap_ms > sent[_i / WAYS].limit_ms;
    require_in(name, senders[i].uv_gap_ms <= sent[_i / WAYS].limit_ms);
    require_in(name,
               way == HAS_MISUNDERSTOOD || senders[i].gap_ms <= longest_ms);
  }
  ck_assert_msg((given_up != 0) == (way == HAS_MISUNDERSTOOD), "%s: %u of %u",
                name, given_up, SENDERS);
  ck_assert(way == HAS_MISUNDERSTOOD || stats_of_wheel().put_back == 0);
  end_senders();
}
END_TEST

#define STEP_DOWN_MS UINT64_C(10000)
#define LEASE_MS UINT64_C(15000)

static void note_uv_time(uv_timer_t *timer) {
  *(uint64_t *)timer->data = clock_now_ms();
}

/* P6. Scenario 67. A leader steps down when its last renewal is 10 s old. The
 * freezes begin at each half second and end within the lease. */
START_TEST(a_leader_steps_down_within_its_lease) {
  uint64_t from_ms, frozen_ms, renewed_ms, uv_fired_ms;
  test_timer_t timer;
  uv_timer_t uv_timer;

  open_wheel_alone();
  uv_timer.data = &uv_fired_ms;
  for (from_ms = 50; from_ms < STEP_DOWN_MS; from_ms += 500)
    for (frozen_ms = 500; from_ms + frozen_ms <= LEASE_MS - TICK_MS;
         frozen_ms += 500) {
      renewed_ms = clock_now_ms();
      begin_test_timer(&timer, STEP_DOWN_MS, 0);
      begin_uv_timer(&uv_timer, note_uv_time, STEP_DOWN_MS, 0);
      hold_at(_i, renewed_ms + from_ms, frozen_ms);
      run_until(renewed_ms + LEASE_MS);
      ck_assert_uint_eq(timer.fired, 1);
      ck_assert_uint_le(timer.fired_ms, uv_fired_ms + TICK_MS);
      uv_close((uv_handle_t *)&uv_timer, NULL);
      run_for(1);
    }
  ck_assert_uint_eq(stats_of_wheel().put_back, 0);
  peers_close();
}
END_TEST

/* ---- Peers --------------------------------------------------------------- */

/* UDP peers speak each second; their timeouts are of 10 s. */
#define SPEAKING(by)                                                    \
  .carrier = (by), .count = 100, .timeout_ms = 10000, .every_ms = 1000, \
  .spread_ms = 10, .has_uv_timer = true

static const struct {
  const char *name;
  peers_options_t peers;
  bool are_kept; /* however long the loop is frozen */
} hearings[] = {
    {"refresh", {SPEAKING(BY_UDP)}, true},
    {"expect", {SPEAKING(BY_UDP), .hearing = EXPECTS}, true},
    {"refresh, once, and again",
     {SPEAKING(BY_UDP), .hearing = CALLS_AGAIN},
     true},
    {"again",
     {SPEAKING(BY_UDP), .hearing = CALLS_AGAIN, .is_unheard = true},
     false},
    {"start", {SPEAKING(BY_UDP), .hearing = STARTS}, false},
    {"stop and start", {SPEAKING(BY_UDP), .hearing = STOPS_AND_STARTS}, false},
    {"a stamp", {SPEAKING(BY_UDP), .hearing = STAMPS}, false},
    {"refresh, TCP", {SPEAKING(BY_PIPE)}, true},
    {"start, TCP", {SPEAKING(BY_PIPE), .hearing = STARTS}, true},
    {"newcomers that are started",
     {SPEAKING(BY_UDP), .first_ms = 20500, .is_unheard = true},
     false},
    {"newcomers that are expected",
     {SPEAKING(BY_UDP), .first_ms = 20500},
     true},
};

static const uint64_t freezes_ms[] = {1000, 5000, 9000, 30000};

/* P6. Scenario 81. A start or a stamp at each word gets what a uv_timer_t
 * gives. (Newcomers have not spoken when the loop is frozen.) */
START_TEST(a_refresh_keeps_who_speaks_and_a_start_does_what_libuv_does) {
  uint64_t frozen_ms = freezes_ms[_i % (int)LENGTH(freezes_ms)];
  int row = _i / (int)LENGTH(freezes_ms);
  peers_options_t crowd = hearings[row].peers;
  unsigned closed, uv_closed;

  open_wheel(0, 0);
  if (crowd.first_ms != 0)
    crowd.timeout_ms = 30000;
  peers_open(&crowd);
  run_for(20000);
  freeze_loop(frozen_ms);
  run_for(crowd.timeout_ms + 2000);
  closed = live_peers_closed(false);
  uv_closed = live_peers_closed(true);
  ck_assert_msg(closed <= uv_closed, "%s, %d ms: %u, %u", hearings[row].name,
                (int)frozen_ms, closed, uv_closed);
  ck_assert_msg((closed == 0) == (hearings[row].are_kept || frozen_ms < 10000),
                "%s, %d ms: %u", hearings[row].name, (int)frozen_ms, closed);
  peers_close();
}
END_TEST

/* Ways to hold the loop from callbacks, but for the last one: two reads of one
 * poll are one callback. Each is followed by itself with an update. */
#define FIRST_CALLBACK 2
#define CALLBACKS 7

/* P6. Scenario 69. Two callbacks of one pass that take 5 s each. */
START_TEST(two_callbacks_that_hold_the_loop_close_no_live_peer) {
  const way_to_hold_t *one = &ways_to_hold[FIRST_CALLBACK + _i / CALLBACKS];
  const way_to_hold_t *other =
      &ways_to_hold[FIRST_CALLBACK + 2 * (_i % CALLBACKS)];
  const peers_options_t crowd = {.carrier = BY_UDP,
                                 .count = 100,
                                 .timeout_ms = 3000,
                                 .every_ms = 1000,
                                 .spread_ms = 10};
  uint64_t from_ms;

  if (one->hold == other->hold)
    return;
  open_wheel(0, 0);
  peers_open(&crowd);
  from_ms = fires_at(clock_now_ms() + 10000);
  run_until(from_ms - 50);
  peers_fall_silent();
  hold_loop(one->hold, from_ms, from_ms + 5000, one->update);
  hold_loop_twice(other->hold);
  peers_lose_words_until(from_ms + 10000);
  run_until(from_ms + 30000);
  ck_assert_msg(live_peers_closed(false) == 0, "%s and %s: %u", one->name,
                other->name, live_peers_closed(false));
  ck_assert_uint_ge(stats_of_wheel().stall_sum_ms, 9000);
  expect_silent_peers_closed(one->name, from_ms + 2000 - 50,
                             from_ms + 3000 + 11000 + 2 * TICK_MS);
  peers_close();
}
END_TEST

/* ---- Many at once -------------------------------------------------------- */

#define STARTED 6000u

/* P6. Scenario 70. The starts themselves take 480 ms, in which the loop's time
 * stands still. So the wheel is late when the loop first runs. */
START_TEST(timers_that_are_started_before_uv_run_are_examined_once) {
  uvwheel_timer_t *many = calloc(STARTED, sizeof *many);
  unsigned fired = 0, i;

  ck_assert_ptr_nonnull(many);
  open_wheel(0, 0);
  for (i = 0; i < STARTED; i++) {
    many[i].data = &fired;
    begin_timer(&many[i], count_timer, i / 10, 0);
    virtual_time_advance_ns(80000);
  }
  run_for(2000);
  ck_assert_uint_eq(fired, STARTED);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_eq(stats_of_wheel().put_back, 0);
  ck_assert_uint_eq(stats_of_wheel().examined, STARTED);
  free(many);
}
END_TEST

static void take_1_s(test_timer_t *unused) {
  (void)unused;
  virtual_time_advance_ms(1000);
}

static void expect_uv_timer_fired(test_timer_t *timer) {
  ck_assert(!uv_is_active(timer->arg));
}

/* P2, P6. By hand or not: what comes due in a slow turn waits for one poll, as
 * it does otherwise, and for a uv_timer_t that was due before. */
START_TEST(what_comes_due_in_a_slow_turn_waits_for_one_poll) {
  static test_timer_t slow, timer;
  static uv_timer_t uv_timer;
  unsigned runs;

  open_wheel(0, 0);
  begin_test_timer(&slow, 900, 0);
  begin_test_timer(&timer, 1050, 0);
  begin_uv_timer(&uv_timer, ignore_uv_timer, 1050, 0);
  slow.then = take_1_s;
  timer.then = expect_uv_timer_fired;
  timer.arg = &uv_timer;
  if (_i == 0)
    run_for(3000);
  for (runs = 0; timer.fired == 0; runs++) {
    virtual_time_advance_ms(1000);
    uv_run(&loop, UV_RUN_ONCE);
  }
  ck_assert_uint_le(runs, 2);
}
END_TEST

static uint64_t next_due_ms(const sender_t *sender) {
  return uv_now(&loop) + uvwheel_timer_get_due_in(&sender->timer);
}

/* P7. After a freeze that is longer than their repeat, repeats are in step, as
 * libuv's are, instead of spread over the repeat. */
START_TEST(a_freeze_brings_repeats_in_step) {
  sender_t *sender;

  way = REPEATS;
  every_ms = 5000;
  open_wheel_alone();
  begin_senders();
  run_for(2 * every_ms + 50);
  ck_assert_uint_ne(next_due_ms(&senders[0]), next_due_ms(&senders[99]));
  hold_at(_i, clock_now_ms() + 50, 2 * every_ms);
  run_for(TICK_MS);
  for (sender = senders; sender < senders + SENDERS; sender++) {
    ck_assert_uint_eq(next_due_ms(sender), next_due_ms(&senders[0]));
    ck_assert_uint_eq(uv_timer_get_due_in(&sender->uv_timer),
                      uv_timer_get_due_in(&senders[0].uv_timer));
  }
  end_senders();
}
END_TEST

/* ---- A least rate -------------------------------------------------------- */

static uvwheel_timer_t rated[100];
static uint64_t block_ms; /* of the next call of one amid others */

/* A repeat of 5 s closes its peer if that has said too little since the last
 * call. All speak each second, and nothing is lost. */
static void on_rate(uvwheel_timer_t *timer) {
  uint64_t *called_ms = timer->data;

  ck_assert_uint_ge(clock_now_ms() / 1000 - *called_ms / 1000, 4);
  *called_ms = clock_now_ms();
  if (timer != &rated[LENGTH(rated) / 3])
    return;
  virtual_time_advance_ms(block_ms);
  block_ms = 0;
}

/* P7. Scenario 79. If a repeat kept its beat through a block of 0.5 to 12 s,
 * its next call could follow at once. One of them blocks the others of its
 * turn, or something else does. */
START_TEST(a_repeat_that_counts_closes_nobody_after_a_block) {
  uint64_t spread_ms = _i < 24 ? 50 : 0, ms = 500 * ((uint64_t)_i % 24 + 1);
  static uint64_t called_ms[LENGTH(rated)];
  size_t i;

  open_wheel(0, 0);
  for (i = 0; i < LENGTH(rated); i++) {
    called_ms[i] = clock_now_ms();
    rated[i].data = &called_ms[i];
    begin_timer(&rated[i], on_rate, 5000 + i * spread_ms, 5000);
  }
  run_for(14900);
  block_ms = _i < 24 ? 0 : ms;
  virtual_time_advance_ms(_i < 24 ? ms : 0);
  run_for(15000);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      {what_we_send_comes_when_a_uv_timer_would_send_it, 0,
       WAYS * LENGTH(sent)},
      {a_leader_steps_down_within_its_lease, 0, WAYS},
      {a_refresh_keeps_who_speaks_and_a_start_does_what_libuv_does, 0,
       LENGTH(hearings) * LENGTH(freezes_ms)},
      {two_callbacks_that_hold_the_loop_close_no_live_peer, 0,
       2 * CALLBACKS * CALLBACKS},
      TEST(timers_that_are_started_before_uv_run_are_examined_once),
      {what_comes_due_in_a_slow_turn_waits_for_one_poll, 0, 2},
      {a_freeze_brings_repeats_in_step, 0, WAYS},
      {a_repeat_that_counts_closes_nobody_after_a_block, 0, 48},
  };

  return run_loop_tests("appointments", tests, LENGTH(tests));
}
