/* SPDX-License-Identifier: MIT */

/* Heard first: a timer fires only after a poll that has returned once it was
 * due, when nothing more waits to be read. Bytes that had reached their socket
 * by then count, however the loop was held up. */

#include "idle_peers.h"

#define TIMEOUT_MS UINT64_C(2000)

static void open_wheel_for(uint64_t tick_ms, uint32_t stall_ms) {
  open_wheel_with(&(uvwheel_options_t){
      .tick_ms = tick_ms, .slots = 512, .stall_ms = stall_ms});
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
}

/* ---- More than one poll can report --------------------------------------- */

#define SPEAKING_ONCE(by, number) \
  .carrier = (by), .count = (number), .timeout_ms = TIMEOUT_MS

/* What waits is read in several polls: libuv reads 32 datagrams of a socket and
 * 32 buffers of a stream per poll, and 1024 events if a signal is among them.
 * A turn of the mailbox has 10,000 requests. */
static const struct {
  const char *name;
  peers_options_t peers;
  unsigned lost; /* what one poll and the wait leave unread */
} crowds[] = {
    {"one byte", {SPEAKING_ONCE(BY_PIPE, 1)}, 0},
    {"1000 datagrams", {SPEAKING_ONCE(BY_UDP, 1000)}, 0},
    {"1000 slow datagrams",
     {SPEAKING_ONCE(BY_UDP, 1000), .hearing_ns = 20000},
     0},
    {"more than a poll reads, for longer than the wait",
     {SPEAKING_ONCE(BY_UDP, 40), .hearing_ns = 1000000},
     40 - 32},
    {"pipes and a signal",
     {SPEAKING_ONCE(BY_PIPE, 1100), .is_after_signal = true},
     0},
    {"messages of 300 KB", {SPEAKING_ONCE(BY_PIPE, 3), .bytes = 300 * 1024}, 0},
    {"20,000 requests", {SPEAKING_ONCE(BY_POST, 20000), .hearing_ns = 500}, 0},
};

static const struct {
  uint64_t tick_ms;
  uint32_t stall_ms;
} wheels[] = {{1, 0}, {10, UINT32_MAX}, {100, 0}, {1000, UINT32_MAX}};

/* The peers speak before the tick at which all of them would be closed, and
 * another handle's callback holds the loop until after that tick: no stall. */
typedef struct held_s {
  uint64_t spoken_ms; /* before the tick */
  uint64_t from_ms;   /* before the tick */
  uint64_t until_ms;  /* after the tick  */
  bool update;
  uint64_t again_ms;  /* a uv_timer_t holds it again for so long,  */
  uint64_t paused_ms; /* after a pause: before the next poll if 0, */
                      /* else between two polls that read          */
} held_t;

static const held_t held[] = {
    {10, 60, 40, false, 0, 0},  {10, 60, 40, true, 0, 0},
    {10, 100, 100, true, 0, 0}, {50, 90, 20, false, 0, 0},
    {50, 90, 0, true, 0, 0},    {150, 190, 10, false, 0, 0},
    {150, 160, 1, true, 0, 0},  {1, 2, 150, false, 0, 0},
    {10, 60, 40, true, 100, 0}, {1, 2, 1, true, 40, 0},
    {1, 2, 1, true, 200, 0},    {1, 2, 1, true, 40, 3},
    {1, 2, 1, true, 200, 3},
};

static void on_held_again(uv_timer_t *timer) {
  virtual_time_advance_ms(*(uint64_t *)timer->data);
  uv_close((uv_handle_t *)timer, NULL);
}

/* Due when the first callback ends or later, so called behind the driver. */
static void hold_again(uint64_t at_ms, uint64_t *for_ms) {
  static uv_timer_t timer;

  if (*for_ms == 0)
    return;
  begin_uv_timer(&timer, on_held_again, at_ms - uv_now(&loop), 0);
  timer.data = for_ms;
}

/* All timers begin 5 ms before a multiple of 100 ms, so that at most ticks the
 * tick comes right after they are due. */
static void hold_past_the_tick(const peers_options_t *crowd, unsigned lost,
                               uint64_t tick_ms, const held_t *how) {
  uint64_t again_ms = how->again_ms, at_ms, heard_ms;

  run_until(clock_now_ms() / 100 * 100 + 195);
  peers_open(crowd);
  at_ms = tick_ms_after(tick_ms, clock_now_ms() + TIMEOUT_MS);
  peers_speak_at(at_ms - how->spoken_ms);
  hold_loop(HELD_BY_UV_TIMER, at_ms - how->from_ms, at_ms + how->until_ms,
            how->update);
  hold_again(at_ms + how->until_ms + how->paused_ms, &again_ms);
  /* At the earliest: since 1.48 libuv polls before it is held again. */
  heard_ms = at_ms + how->until_ms;
  run_until(heard_ms + TIMEOUT_MS - 1);
  ck_assert_msg(
      peers_closed() <= lost,
      "tick of %d ms, held from %d to %d ms, then for %d ms: %u of %u",
      (int)tick_ms, -(int)how->from_ms, (int)how->until_ms, (int)again_ms,
      peers_closed(), crowd->count);
  run_until(heard_ms + again_ms + TIMEOUT_MS + tick_ms + 100);
  ck_assert_uint_eq(peers_closed(), crowd->count);
  ck_assert_uint_le(peers_cut_off(), lost);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  peers_close();
}

/* P6. Scenarios 33 and 41. */
START_TEST(what_waits_in_sockets_is_heard_before_timers_fire) {
  size_t which, i;

  for (which = 0; which < LENGTH(wheels); which++) {
    open_wheel_for(wheels[which].tick_ms, wheels[which].stall_ms);
    for (i = 0; i < LENGTH(held); i++)
      hold_past_the_tick(&crowds[_i].peers, crowds[_i].lost,
                         wheels[which].tick_ms, &held[i]);
    close_and_forget_wheel();
  }
}
END_TEST

/* ---- However the loop is held -------------------------------------------- */

static void close_all(void) {
  peers_close();
  close_and_forget_wheel();
}

static const peers_options_t half_silent = {.carrier = BY_PIPE,
                                            .count = 40,
                                            .timeout_ms = 3000,
                                            .every_ms = 500,
                                            .is_half_silent = true};

/* P6. Scenarios 22, 29 and 47. logstash-input-beats#141, bytedance/g3#929,
 * ballerina http#2669. When the block is over a timer has half of what it had
 * left at least. It has no more than the block and a second on top, whoever
 * blocked the loop. */
START_TEST(exactly_the_silent_half_is_closed) {
  uint64_t until_ms, opened_ms;
  unsigned is_lossy;

  for (until_ms = 1200; until_ms <= 21000; until_ms += 1100)
    for (is_lossy = 0; is_lossy < 2; is_lossy++) {
      open_wheel_for(100, 0);
      peers_open(&half_silent);
      opened_ms = clock_now_ms();
      run_until(opened_ms + 1000 - 10);
      hold_loop(ways_to_hold[_i].hold, opened_ms + 1000, opened_ms + until_ms,
                ways_to_hold[_i].update);
      peers_lose_words_until(is_lossy ? opened_ms + until_ms : 0);
      run_until(opened_ms + until_ms + 20000);
      expect_silent_peers_closed(
          ways_to_hold[_i].name,
          opened_ms + max_of(3000, until_ms + (3000 - 1000) / 2),
          opened_ms + 3000 + 200 + until_ms - 1000 + 1000);
      ck_assert_uint_eq(live_peers_closed(false), 0);
      close_all();
    }
}
END_TEST

/* ---- Stalls in a row, and a machine that sleeps -------------------------- */

static const struct {
  const char *name;
  carrier_t carrier;
  uint64_t timeout_ms;
  uint64_t every_ms;
  uint64_t spread_ms; /* a peer speaks so much later than the one before */
  hold_t hold;
  bool update;
  unsigned stalls;
  uint64_t between_ms;
  uint64_t first_ms; /* how long it lasts, and all others */
  uint64_t other_ms;
} in_a_row[] = {
    {"ten, 2 s", BY_UDP, 2000, 100, 1, FROZEN_BETWEEN_ITERATIONS, false, 10,
     700, 5000, 5000},
    {"ten, 3 s, pipes, little between", BY_PIPE, 3000, 100, 1,
     FROZEN_BETWEEN_ITERATIONS, false, 10, 110, 5000, 5000},
    {"a short one after it", BY_UDP, 2500, 1000, 10, FROZEN_BETWEEN_ITERATIONS,
     false, 2, 500, 10000, 400},
    /* Scenario 56. All comes again after 64 minutes, in which the hand makes a
     * whole number of rounds. */
    {"two hours of commands", BY_UDP, 5000, 2000, 100,
     HELD_BY_READ_BEFORE_PEERS, false, 120, 56000, 4000, 4000},
    {"two hours of the wheel's", BY_UDP, 5000, 2000, 100, HELD_BY_WHEEL_TIMER,
     false, 120, 56000, 4000, 4000},
    {"142 blocks, peers spread", BY_UDP, 5000, 2000, 650, HELD_BY_UV_TIMER,
     true, 142, 596000, 12000, 12000},
    /* Scenario 34, where the clock counts sleep (tokio#3185, node#6763). */
    {"8 h of sleep", BY_UDP, 5000, 1000, 0, FROZEN_IN_POLL, false, 1, 30500,
     28800000, 28800000},
    {"3 times 1 h of sleep", BY_UDP, 5000, 1000, 0, FROZEN_BETWEEN_ITERATIONS,
     false, 3, 30500, 3600000, 3600000},
};

#define IS_LONG(row) \
  (in_a_row[row].stalls > 100 || in_a_row[row].first_ms > 100000)

/* P6. Scenarios 23 and 28, with words that wait and words that are lost. */
START_TEST(stalls_in_a_row_cut_no_peer_off) {
  const peers_options_t crowd = {.carrier = in_a_row[_i].carrier,
                                 .count = IS_LONG(_i) ? 3 : 100,
                                 .timeout_ms = in_a_row[_i].timeout_ms,
                                 .every_ms = in_a_row[_i].every_ms,
                                 .first_ms = 100,
                                 .spread_ms = in_a_row[_i].spread_ms};
  unsigned is_lossy, i;
  uint64_t from_ms, until_ms;

  for (is_lossy = IS_LONG(_i); is_lossy < 2; is_lossy++) {
    open_wheel_for(100, 0);
    peers_open(&crowd);
    for (i = 0; i < in_a_row[_i].stalls && peers_closed() == 0; i++) {
      from_ms = clock_now_ms() + in_a_row[_i].between_ms;
      until_ms =
          from_ms + (i == 0 ? in_a_row[_i].first_ms : in_a_row[_i].other_ms);
      run_until(from_ms - 1);
      peers_lose_words_until(is_lossy ? until_ms : 0);
      hold_loop(in_a_row[_i].hold, from_ms, until_ms, in_a_row[_i].update);
      run_until(until_ms);
    }
    run_until(clock_now_ms() + 10000);
    ck_assert_msg(peers_closed() == 0, "%s%s, after %u: %u of %u",
                  in_a_row[_i].name, is_lossy ? ", lost" : "", i,
                  peers_closed(), crowd.count);
    ck_assert_uint_ge(stats_of_wheel().stalls, i - 1);
    close_all();
  }
  rewind_clock();
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(what_waits_in_sockets_is_heard_before_timers_fire, crowds),
      {exactly_the_silent_half_is_closed, 0, WAYS_TO_HOLD},
      EACH(stalls_in_a_row_cut_no_peer_off, in_a_row),
  };

  return run_loop_tests("heard", tests, LENGTH(tests));
}
