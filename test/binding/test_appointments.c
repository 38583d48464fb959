/* SPDX-License-Identifier: MIT */

/* Appointments (P6): a timer that was only started fires when a uv_timer_t
 * would, however the loop was held, but for a tick. Each test has a uv_timer_t
 * beside each timer of the wheel. What a refresh gains, and where it must not
 * be used, is below. */

#include <stdlib.h>

#include "support.h"

#define NEVER UINT64_MAX
#define TICK_MS UVWHEEL_DEFAULT_TICK_MS

static uint64_t clock_now_ms(void) {
  return virtual_time_ns() / 1000000;
}

static void run_until(uint64_t ms) {
  run_for(excess(ms, clock_now_ms()));
}

/* ---- What holds the loop ------------------------------------------------- */

static bool is_held;     /* what datagrams say is lost */
static bool is_updating; /* a callback that holds it updates the loop's time */

static void hold(uint64_t ms) {
  is_held = true;
  virtual_time_advance_ms(ms);
  is_held = false;
  if (is_updating)
    uv_update_time(&loop);
}

static uint64_t hold_ms; /* what each of these takes */

static void hold_by_uv_timer(uv_timer_t *timer) {
  (void)timer;
  hold(hold_ms);
}

/* The loop is held at that time: between iterations, or by a uv_timer_t that
 * updates the loop's time or does not. */
#define WAYS_TO_HOLD 3

static void hold_at(int way, uint64_t at_ms, uint64_t ms) {
  static uv_timer_t holder;

  is_updating = way == 2;
  hold_ms = ms;
  if (way != 0)
    begin_uv_timer(&holder, hold_by_uv_timer, at_ms - uv_now(&loop), 0);
  run_until(at_ms);
  if (way == 0)
    hold(ms);
  run_for(1);
  if (way != 0)
    uv_close((uv_handle_t *)&holder, NULL);
}

/* ---- What we send -------------------------------------------------------- */

#define SENDERS 200u

/* How a sender goes on: its timer repeats, or its callback starts it. One whose
 * timer is refreshed after each start has misunderstood what a refresh says. */
typedef enum way_e { REPEATS, STARTS, REFRESHES } way_t;

typedef struct sender_s {
  uvwheel_timer_t timer;
  uv_timer_t uv_timer;
  uint64_t sent_ms, uv_sent_ms; /* last                         */
  uint64_t gap_ms, uv_gap_ms;   /* the longest, between two     */
} sender_t;

static sender_t *senders;
static way_t way;
static uint64_t every_ms;

static void on_send(uvwheel_timer_t *timer) {
  sender_t *sender = timer->data;

  sender->gap_ms = max_of(sender->gap_ms, clock_now_ms() - sender->sent_ms);
  sender->sent_ms = clock_now_ms();
  if (way != REPEATS)
    (void)uvwheel_timer_start(timer, on_send, every_ms, 0);
  if (way == REFRESHES)
    (void)uvwheel_timer_refresh(timer);
}

static void on_uv_send(uv_timer_t *timer) {
  sender_t *sender = timer->data;

  sender->uv_gap_ms =
      max_of(sender->uv_gap_ms, clock_now_ms() - sender->uv_sent_ms);
  sender->uv_sent_ms = clock_now_ms();
  if (way != REPEATS)
    (void)uv_timer_start(timer, on_uv_send, every_ms, 0);
}

/* They send first at moments that are spread over the interval. */
static void begin_senders(void) {
  uint64_t first_ms, repeat = way == REPEATS ? every_ms : 0;
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

static void end_senders(void) {
  sender_t *sender;

  for (sender = senders; sender < senders + SENDERS; sender++) {
    uvwheel_timer_close(&sender->timer);
    uv_close((uv_handle_t *)&sender->uv_timer, NULL);
  }
  run_for(1);
  free(senders);
}

/* The other end gives up after `limit_ms`, which the freeze leaves time for. */
static const struct {
  const char *name;
  way_t way;
  uint64_t every_ms, limit_ms, frozen_ms;
  bool is_lost; /* some are given up */
} sent[] = {
    /* Scenario 66. */
    {"pings of 25 s, clients leave after 45 s", REPEATS, 25000, 45000, 19500,
     false},
    {"pings of 1 s, clients leave after 3 s", REPEATS, 1000, 3000, 1700, false},
    {"the same, frozen for longer", REPEATS, 1000, 3000, 1850, false},
    /* Scenario 68. */
    {"a watchdog of 10 s", REPEATS, 5000, 10000, 4900, false},
    {"a watchdog of 10 s that is started", STARTS, 5000, 10000, 4900, false},
    {"a heartbeat behind a proxy of 15 s", REPEATS, 10000, 15000, 4500, false},
    {"a keep-alive of 30 s, a broker of 45 s", STARTS, 30000, 45000, 14800,
     false},
    {"retries of 400 ms", STARTS, 400, 1000, 300, false},
    {"retries of 400 ms, after 3 s", STARTS, 400, 3500, 3000, false},
    /* A refresh says that a peer was heard, which is not so here. */
    {"refreshed pings", REFRESHES, 25000, 45000, 19500, true},
    {"a refreshed watchdog", REFRESHES, 5000, 10000, 4900, true},
    {"a refreshed keep-alive", REFRESHES, 30000, 45000, 14800, true},
};

/* P6. One freeze, at any phase. */
START_TEST(what_we_send_comes_when_a_uv_timer_would_send_it) {
  const char *name = sent[_i / WAYS_TO_HOLD].name;
  uint64_t longest_ms;
  unsigned given_up = 0, i;

  way = sent[_i / WAYS_TO_HOLD].way;
  every_ms = sent[_i / WAYS_TO_HOLD].every_ms;
  longest_ms = every_ms + sent[_i / WAYS_TO_HOLD].frozen_ms + TICK_MS;
  open_wheel(0, 0);
  begin_senders();
  run_for(2 * every_ms);
  hold_at(_i % WAYS_TO_HOLD, clock_now_ms() + 50,
          sent[_i / WAYS_TO_HOLD].frozen_ms);
  run_for(4 * every_ms);
  for (i = 0; i < SENDERS; i++) {
    given_up += senders[i].gap_ms > sent[_i / WAYS_TO_HOLD].limit_ms;
    require_in(name, senders[i].uv_gap_ms <= sent[_i / WAYS_TO_HOLD].limit_ms);
    require_in(name, way == REFRESHES || senders[i].gap_ms <= longest_ms);
  }
  ck_assert_msg((given_up != 0) == sent[_i / WAYS_TO_HOLD].is_lost,
                "%s: %u of %u", name, given_up, SENDERS);
  ck_assert(way == REFRESHES || stats_of_wheel().put_back == 0);
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

  open_wheel(0, 0);
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
}
END_TEST

/* ---- Peers --------------------------------------------------------------- */

/* Peers speak at their own times. What they say while the loop is held is lost,
 * as datagrams may be, or waits. Each has a timer of the wheel and, beside it,
 * a uv_timer_t that is started by each word. */

#define MAX_PEERS 200u

/* What a word of the peer does to its timer. */
typedef enum hearing_e {
  REFRESH,
  AGAIN, /* the timer repeats, and is not started by again alone */
  START,
  STOP_AND_START,
  STAMP, /* the callback of the timer looks at a stamp */
} hearing_t;

typedef struct peer_s {
  uvwheel_timer_t timer;
  uv_timer_t uv_timer;
  uint64_t next_ms, heard_ms;
  uint64_t closed_ms, uv_closed_ms; /* NEVER: it was not */
  bool has_spoken;                  /* it waits to be heard */
} peer_t;

typedef struct crowd_s {
  unsigned count;
  uint64_t timeout_ms;
  uint64_t speak_ms; /* how often they speak */
  uint64_t first_ms; /* the first one speaks first, the others after it */
  hearing_t hearing;
  bool is_tcp;     /* what they say waits */
  bool is_unheard; /* their timers are not refreshed after the first start */
} crowd_t;

static peer_t peers[MAX_PEERS];
static crowd_t crowd;
static uv_async_t words;

static uint64_t silent_from_ms; /* the second half of them, for good */

static bool is_live(const peer_t *peer) {
  return peer < peers + crowd.count / 2;
}

static bool exists(const peer_t *peer) {
  return peer < peers + crowd.count;
}

static void fall_silent(void) {
  silent_from_ms = clock_now_ms();
}

static uint64_t speak(void) {
  uint64_t next_ms = NEVER;
  peer_t *peer;

  for (peer = peers; exists(peer); peer++) {
    if (peer->next_ms <= clock_now_ms()) {
      peer->next_ms += crowd.speak_ms;
      if (is_live(peer) || clock_now_ms() <= silent_from_ms)
        peer->has_spoken |= crowd.is_tcp || !is_held;
      ck_assert_int_eq(uv_async_send(&words), 0);
    }
    next_ms = min_of(next_ms, peer->next_ms);
  }
  return next_ms * 1000000;
}

static void on_idle(uvwheel_timer_t *timer) {
  peer_t *peer = timer->data;
  uint64_t silent_ms = uv_now(&loop) - peer->heard_ms;

  if (crowd.hearing == STAMP && silent_ms < crowd.timeout_ms) {
    (void)uvwheel_timer_start(timer, on_idle, crowd.timeout_ms - silent_ms, 0);
    return;
  }
  peer->closed_ms = clock_now_ms();
  uvwheel_timer_close(timer);
}

static void on_uv_idle(uv_timer_t *timer) {
  ((peer_t *)timer->data)->uv_closed_ms = clock_now_ms();
  uv_timer_stop(timer);
}

static void hear(peer_t *peer) {
  uvwheel_timer_t *timer = &peer->timer;

  peer->heard_ms = uv_now(&loop);
  if (peer->uv_closed_ms == NEVER)
    (void)uv_timer_start(&peer->uv_timer, on_uv_idle, crowd.timeout_ms, 0);
  if (peer->closed_ms != NEVER || crowd.hearing == STAMP)
    return;
  if (crowd.hearing == REFRESH)
    (void)uvwheel_timer_refresh(timer);
  if (crowd.hearing == AGAIN)
    (void)uvwheel_timer_again(timer);
  if (crowd.hearing == STOP_AND_START)
    (void)uvwheel_timer_stop(timer);
  if (crowd.hearing == START || crowd.hearing == STOP_AND_START)
    (void)uvwheel_timer_start(timer, on_idle, crowd.timeout_ms, 0);
}

static void on_words(uv_async_t *unused) {
  peer_t *peer;

  (void)unused;
  for (peer = peers; exists(peer); peer++)
    if (peer->has_spoken) {
      peer->has_spoken = false;
      hear(peer);
    }
}

static void open_crowd(const crowd_t *wanted) {
  peer_t *peer;

  crowd = *wanted;
  silent_from_ms = NEVER;
  ck_assert_uint_le(crowd.count, MAX_PEERS);
  ck_assert_int_eq(uv_async_init(&loop, &words, on_words), 0);
  for (peer = peers; exists(peer); peer++) {
    *peer = (peer_t){.closed_ms = NEVER, .uv_closed_ms = NEVER};
    peer->timer.data = peer->uv_timer.data = peer;
    peer->heard_ms = uv_now(&loop);
    peer->next_ms = clock_now_ms() + crowd.first_ms +
                    (uint64_t)(peer - peers) % (crowd.count / 2) * 2 *
                        crowd.speak_ms / crowd.count;
    begin_timer(&peer->timer, on_idle, crowd.timeout_ms,
                crowd.hearing == AGAIN ? crowd.timeout_ms : 0);
    if (!crowd.is_unheard && crowd.hearing <= AGAIN)
      ck_assert_int_eq(uvwheel_timer_refresh(&peer->timer), 0);
    begin_uv_timer(&peer->uv_timer, on_uv_idle, crowd.timeout_ms, 0);
  }
  peers[0].next_ms = clock_now_ms() + 100; /* there is I/O from then on */
  virtual_time_set_world(speak);
}

static void close_crowd(void) {
  peer_t *peer;

  virtual_time_set_world(NULL);
  for (peer = peers; exists(peer); peer++) {
    uvwheel_timer_close(&peer->timer);
    uv_close((uv_handle_t *)&peer->uv_timer, NULL);
  }
  uv_close((uv_handle_t *)&words, NULL);
  run_for(1);
}

/* Of those that speak: how many were closed. */
static unsigned live_closed(void) {
  unsigned closed = 0;
  const peer_t *peer;

  for (peer = peers; is_live(peer); peer++)
    closed += peer->closed_ms != NEVER;
  return closed;
}

static unsigned live_uv_closed(void) {
  unsigned closed = 0;
  const peer_t *peer;

  for (peer = peers; is_live(peer); peer++)
    closed += peer->uv_closed_ms != NEVER;
  return closed;
}

/* All others were, by so much later than their timeout at most. */
static void expect_silent_closed(const char *name, uint64_t later_ms) {
  uint64_t due_ms = silent_from_ms + crowd.timeout_ms;
  const peer_t *peer = peers + crowd.count / 2;

  for (; exists(peer); peer++) {
    require_in(name, peer->closed_ms > due_ms - crowd.speak_ms);
    require_in(name, peer->closed_ms <= due_ms + later_ms + TICK_MS);
  }
}

/* ---- What a word does ---------------------------------------------------- */

/* Scenario 81. A traffic that is not a refresh gets what a uv_timer_t gives. */
static const struct {
  const char *name;
  crowd_t crowd;
  bool is_kept; /* all that speak are, however long the loop is frozen */
} hearings[] = {
    {"refresh", {.hearing = REFRESH}, true},
    {"again", {.hearing = AGAIN}, true},
    {"start", {.hearing = START}, false},
    {"stop and start", {.hearing = STOP_AND_START}, false},
    {"a stamp", {.hearing = STAMP}, false},
    {"refresh, TCP", {.hearing = REFRESH, .is_tcp = true}, true},
    {"start, TCP", {.hearing = START, .is_tcp = true}, true},
    /* Newcomers. */
    {"not refreshed yet", {.first_ms = 4500, .is_unheard = true}, false},
    {"refreshed after the start", {.first_ms = 4500}, true},
};

static const uint64_t freezes_ms[] = {1000, 5000, 10000, 30000};

/* P6. Peers of 10 s that speak each second. */
START_TEST(a_refresh_keeps_who_speaks_and_a_start_does_what_libuv_does) {
  const uint64_t frozen_ms = freezes_ms[_i % (int)LENGTH(freezes_ms)];
  const int row = _i / (int)LENGTH(freezes_ms);
  crowd_t wanted = hearings[row].crowd;

  wanted.count = 200;
  wanted.timeout_ms = 10000;
  wanted.speak_ms = 1000;
  open_wheel(0, 0);
  open_crowd(&wanted);
  run_for(wanted.first_ms == 0 ? 25000 : 4000);
  hold(frozen_ms);
  run_for(2000 + frozen_ms);
  ck_assert_msg(live_closed() <= live_uv_closed(), "%s, %d ms: %u, %u",
                hearings[row].name, (int)frozen_ms, live_closed(),
                live_uv_closed());
  ck_assert_msg(
      (live_closed() == 0) == (hearings[row].is_kept || frozen_ms < 10000),
      "%s, %d ms: %u", hearings[row].name, (int)frozen_ms, live_closed());
  close_crowd();
}
END_TEST

/* ---- Two callbacks of one pass ------------------------------------------- */

static struct {
  uv_timer_t trigger, timer;
  uv_idle_t idle;
  uv_prepare_t prepare;
  uv_async_t read;
  uv_check_t check, closing;
  uvwheel_timer_t own;
} holders;

static void hold_by_idle(uv_idle_t *idle) {
  (void)uv_idle_stop(idle);
  hold(hold_ms);
}

static void hold_by_prepare(uv_prepare_t *prepare) {
  (void)uv_prepare_stop(prepare);
  hold(hold_ms);
}

static void hold_by_read(uv_async_t *unused) {
  (void)unused;
  hold(hold_ms);
}

static void hold_by_check(uv_check_t *check) {
  (void)uv_check_stop(check);
  hold(hold_ms);
}

static void hold_by_close(uv_handle_t *unused) {
  (void)unused;
  hold(hold_ms);
}

static void hold_by_own(uvwheel_timer_t *timer) {
  (void)timer;
  hold(hold_ms);
}

static void begin_idle(uint64_t unused) {
  (void)unused;
  (void)uv_idle_start(&holders.idle, hold_by_idle);
}

static void begin_to_prepare(uint64_t unused) {
  (void)unused;
  (void)uv_prepare_start(&holders.prepare, hold_by_prepare);
}

static void begin_read(uint64_t unused) {
  (void)unused;
  ck_assert_int_eq(uv_async_send(&holders.read), 0);
}

static void begin_check(uint64_t unused) {
  (void)unused;
  (void)uv_check_start(&holders.check, hold_by_check);
}

static void begin_close(uint64_t unused) {
  (void)unused;
  uv_close((uv_handle_t *)&holders.closing, hold_by_close);
}

static void begin_own(uint64_t delay_ms) {
  begin_timer(&holders.own, hold_by_own, delay_ms - 1, 0);
}

static void begin_uv(uint64_t delay_ms) {
  (void)uv_timer_start(&holders.timer, hold_by_uv_timer, delay_ms, 0);
}

/* Two of them are timers, which are started before the pass; a uv_timer_t,
 * which is due with them, begins the others. */
static const struct {
  const char *name;
  void (*begin)(uint64_t delay_ms);
} blocks[] = {
    {"the wheel's own", begin_own},    {"a uv_timer_t", begin_uv},
    {"an idle callback", begin_idle},  {"a prepare callback", begin_to_prepare},
    {"a read callback", begin_read},   {"a check callback", begin_check},
    {"a close callback", begin_close},
};

#define BLOCKS (int)LENGTH(blocks)
#define TIMERS 2 /* the first of them */

static int first_block, second_block;

static void begin_blocks(uv_timer_t *unused) {
  (void)unused;
  if (first_block >= TIMERS)
    blocks[first_block].begin(0);
  if (second_block >= TIMERS)
    blocks[second_block].begin(0);
}

static void open_holders(void) {
  memset(&holders, 0, sizeof holders);
  begin_uv_timer(&holders.trigger, begin_blocks, NEVER, 0);
  begin_uv_timer(&holders.timer, hold_by_uv_timer, NEVER, 0);
  ck_assert_int_eq(uv_idle_init(&loop, &holders.idle), 0);
  ck_assert_int_eq(uv_prepare_init(&loop, &holders.prepare), 0);
  ck_assert_int_eq(uv_async_init(&loop, &holders.read, hold_by_read), 0);
  ck_assert_int_eq(uv_check_init(&loop, &holders.check), 0);
  ck_assert_int_eq(uv_check_init(&loop, &holders.closing), 0);
}

/* At a tick. */
static void begin_pass(uint64_t in_ms) {
  uint64_t delay_ms = fires_at(uv_now(&loop) + in_ms) - uv_now(&loop);

  ck_assert_int_eq(uv_timer_start(&holders.trigger, begin_blocks, delay_ms, 0),
                   0);
  if (first_block < TIMERS)
    blocks[first_block].begin(delay_ms);
  if (second_block < TIMERS)
    blocks[second_block].begin(delay_ms);
}

/* P6. Scenario 69. Each takes 5 s. Peers of 3 s speak each second. */
START_TEST(two_callbacks_of_one_pass_that_hold_the_loop_close_no_live_peer) {
  const crowd_t wanted = {.count = 200, .timeout_ms = 3000, .speak_ms = 1000};

  first_block = _i / 2 / BLOCKS;
  second_block = _i / 2 % BLOCKS;
  if (second_block <= first_block) /* all pairs without it */
    return;
  is_updating = _i % 2;
  hold_ms = 5000;
  open_wheel(0, 0);
  open_crowd(&wanted);
  open_holders();
  begin_pass(10000);
  run_for(9950);
  fall_silent();
  run_for(40000);
  ck_assert_msg(live_closed() == 0, "%s and %s: %u", blocks[first_block].name,
                blocks[second_block].name, live_closed());
  expect_silent_closed(blocks[first_block].name, 10000 + 1000);
  close_crowd();
}
END_TEST

/* ---- Freezes that follow each other -------------------------------------- */

static const uint64_t lengths_ms[] = {500, 1000, 3000, 10000, 30000};
static const uint64_t gaps_ms[] = {100, 300, 700, 2000, 5000};
static const uint64_t timeouts_ms[] = {4000, 8000, 20000};

/* P6. Scenario 69. One to three freezes: peers that speak each second are kept,
 * silent ones go after the sum of the freezes at the latest. */
START_TEST(up_to_three_freezes_close_no_live_peer) {
  crowd_t wanted = {.count = 200, .speak_ms = 1000};
  uint64_t length_ms = lengths_ms[_i / 3 / (int)LENGTH(gaps_ms)];
  uint64_t gap_ms = gaps_ms[_i / 3 % (int)LENGTH(gaps_ms)];
  unsigned freezes = 1 + (unsigned)_i % 3, i;
  size_t which;

  for (which = 0; which < LENGTH(timeouts_ms); which++) {
    wanted.timeout_ms = timeouts_ms[which];
    open_wheel(0, 0);
    open_crowd(&wanted);
    run_for(10000);
    fall_silent();
    for (i = 0; i < freezes; i++) {
      hold(length_ms);
      run_for(gap_ms);
    }
    run_for(wanted.timeout_ms + freezes * length_ms + 2000);
    ck_assert_msg(live_closed() == 0, "%u of %d ms, %d apart, %d ms: %u, %u",
                  freezes, (int)length_ms, (int)gap_ms, (int)wanted.timeout_ms,
                  live_closed(), live_uv_closed());
    expect_silent_closed("up to three", freezes * length_ms + 1000);
    close_crowd();
    close_and_forget_wheel();
  }
  rewind_clock();
}
END_TEST

/* Freezes without end. Who speaks twice in each of them, and not between them,
 * is closed in the end. */
static const struct {
  uint64_t frozen_ms, of_ms, timeout_ms;
  bool are_live_closed;
} endless[] = {
    {3000, 4000, 10000, false},
    {1200, 2000, 10000, true},
    {15000, 20000, 60000, false},
    {600, 1000, 10000, true},
};

/* P6. Scenario 80. Live peers are kept through three freezes, and silent ones
 * for the sum of three. At that time one more may begin. */
START_TEST(freezes_without_end_keep_silent_peers_for_a_while) {
  uint64_t frozen_ms = endless[_i].frozen_ms, of_ms = endless[_i].of_ms;
  crowd_t wanted = {
      .count = 20, .timeout_ms = endless[_i].timeout_ms, .speak_ms = 1000};
  unsigned i, closed = 0;
  uint64_t phase_ms;

  for (phase_ms = 1; phase_ms < of_ms; phase_ms += of_ms / 10) {
    open_wheel(0, 0);
    open_crowd(&wanted);
    run_for(wanted.timeout_ms + phase_ms);
    fall_silent();
    for (i = 0; i < 3 * wanted.timeout_ms / of_ms + 1; i++) {
      hold(frozen_ms);
      run_for(of_ms - frozen_ms);
      ck_assert(i >= 3 || live_closed() == 0);
    }
    closed += live_closed();
    ck_assert_uint_le(live_closed(), live_uv_closed());
    expect_silent_closed("without end", 3 * frozen_ms + 1000 + frozen_ms);
    close_crowd();
    close_and_forget_wheel();
  }
  ck_assert_int_eq(closed != 0, endless[_i].are_live_closed);
  rewind_clock();
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

static uint64_t next_due_ms(const sender_t *sender) {
  return uv_now(&loop) + uvwheel_timer_get_due_in(&sender->timer);
}

/* P7. After a freeze that is longer than their repeat, repeats are in step, as
 * libuv's are, instead of spread over the repeat. */
START_TEST(a_freeze_brings_repeats_in_step) {
  sender_t *sender;

  way = REPEATS;
  every_ms = 5000;
  open_wheel(0, 0);
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

/* A repeat of 5 s counts what its peer has said since the last call, and closes
 * it if that was too little. */
typedef struct rated_s {
  uvwheel_timer_t timer;
  unsigned said;
  bool is_closed;
} rated_t;

static rated_t rated[100];
static unsigned least, waiting; /* words: that are enough, that wait */

static void on_rate(uvwheel_timer_t *timer) {
  rated_t *peer = timer->data;

  peer->is_closed |= peer->said < least;
  peer->said = 0;
}

/* All speak each second, and nothing is lost. */
static uint64_t speak_all(void) {
  waiting++;
  ck_assert_int_eq(uv_async_send(&words), 0);
  return virtual_time_ns() + UINT64_C(1000000000);
}

static void hear_all(uv_async_t *unused) {
  size_t i;

  (void)unused;
  for (i = 0; i < LENGTH(rated); i++)
    rated[i].said += waiting;
  waiting = 0;
}

/* P7. Scenario 79. One word may be the answer to a ping. If a repeat kept its
 * beat through a block, its next call could follow at once. */
START_TEST(a_repeat_that_counts_closes_nobody_after_a_block) {
  uint64_t block_ms;
  size_t i;

  least = _i == 0 ? 1 : 4;
  for (block_ms = 500; block_ms <= 12000; block_ms += 500) {
    open_wheel(0, 0);
    memset(rated, 0, sizeof rated);
    ck_assert_int_eq(uv_async_init(&loop, &words, hear_all), 0);
    for (i = 0; i < LENGTH(rated); i++) {
      begin_timer(&rated[i].timer, on_rate, 5000 + i * 50, 5000);
      rated[i].timer.data = &rated[i];
    }
    virtual_time_set_world(speak_all);
    run_for(15000);
    hold(block_ms);
    run_for(15000);
    for (i = 0; i < LENGTH(rated); i++)
      ck_assert_msg(!rated[i].is_closed, "blocked for %d ms: %d", (int)block_ms,
                    (int)i);
    virtual_time_set_world(NULL);
    uv_close((uv_handle_t *)&words, NULL);
    close_and_forget_wheel();
  }
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      {what_we_send_comes_when_a_uv_timer_would_send_it, 0,
       WAYS_TO_HOLD * LENGTH(sent)},
      {a_leader_steps_down_within_its_lease, 0, WAYS_TO_HOLD},
      {a_refresh_keeps_who_speaks_and_a_start_does_what_libuv_does, 0,
       LENGTH(hearings) * LENGTH(freezes_ms)},
      {two_callbacks_of_one_pass_that_hold_the_loop_close_no_live_peer, 0,
       2 * BLOCKS * BLOCKS},
      {up_to_three_freezes_close_no_live_peer, 0,
       3 * LENGTH(lengths_ms) * LENGTH(gaps_ms)},
      EACH(freezes_without_end_keep_silent_peers_for_a_while, endless),
      TEST(timers_that_are_started_before_uv_run_are_examined_once),
      {a_freeze_brings_repeats_in_step, 0, WAYS_TO_HOLD},
      {a_repeat_that_counts_closes_nobody_after_a_block, 0, 2},
  };

  return run_loop_tests("appointments", tests, LENGTH(tests));
}
