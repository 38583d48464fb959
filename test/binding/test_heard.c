/* SPDX-License-Identifier: MIT */

/* Heard first: a timer fires only after a poll that began once it was due, when
 * nothing more waits to be read. Bytes that had reached their socket by then
 * count, however the loop was held up. */

#include "idle_peers.h"

#define TIMEOUT_MS UINT64_C(2000)

static void
open_wheel_for(uint64_t tick_ms, uint32_t stall_ms)
{
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
} crowds[] = {
    {"one byte", {SPEAKING_ONCE(BY_PIPE, 1)}},
    {"1000 datagrams", {SPEAKING_ONCE(BY_UDP, 1000)}},
    {"1000 slow datagrams", {SPEAKING_ONCE(BY_UDP, 1000), .hearing_ns = 20000}},
    {"more than a poll reads, for longer than the wait",
     {SPEAKING_ONCE(BY_UDP, 40), .hearing_ns = 1000000}},
    {"pipes and a signal",
     {SPEAKING_ONCE(BY_PIPE, 1100), .is_after_signal = true}},
    {"messages of 300 KB", {SPEAKING_ONCE(BY_PIPE, 3), .bytes = 300 * 1024}},
    {"20,000 requests", {SPEAKING_ONCE(BY_POST, 20000), .hearing_ns = 500}},
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

static bool posts; /* it also posts a request, which the next poll finds */

static void
on_held_again(uv_timer_t *timer)
{
  static uvwheel_post_t request;

  virtual_time_advance_ms(*(uint64_t *)timer->data);
  if (posts)
    ck_assert_int_eq(uvwheel_post(&wheel, &request, ignore_post), 0);
  uv_close((uv_handle_t *)timer, NULL);
}

/* Due when the first callback ends or later, and so called behind the driver.
 */
static void
hold_again(uint64_t at_ms, uint64_t *for_ms)
{
  static uv_timer_t timer;

  if (*for_ms == 0)
    return;
  begin_uv_timer(&timer, on_held_again, at_ms - uv_now(&loop), 0);
  timer.data = for_ms;
}

/* All timers begin 5 ms before a multiple of 100 ms, so that at most ticks the
 * tick comes right after they are due. */
static void
hold_past_the_tick(const peers_options_t *crowd, uint64_t tick_ms,
                   const held_t *how)
{
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
      peers_closed() == 0,
      "tick of %d ms, held from %d to %d ms, then for %d ms: %u of %u",
      (int)tick_ms, -(int)how->from_ms, (int)how->until_ms, (int)again_ms,
      peers_closed(), crowd->count);
  run_until(heard_ms + again_ms + TIMEOUT_MS + tick_ms + 100);
  ck_assert_uint_eq(peers_closed(), crowd->count);
  ck_assert_uint_eq(peers_cut_off(), 0);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  peers_close();
}

/* P6. Scenario 33. */
START_TEST(what_waits_in_sockets_is_heard_before_timers_fire)
{
  const peers_options_t *crowd = &crowds[_i].peers;
  size_t which, i;

  for (which = 0; which < LENGTH(wheels); which++) {
    open_wheel_for(wheels[which].tick_ms, wheels[which].stall_ms);
    for (i = 0; i < LENGTH(held); i++)
      hold_past_the_tick(crowd, wheels[which].tick_ms, &held[i]);
    close_and_forget_wheel();
  }
}
END_TEST

/* P6. Scenario 41. From the poll that reads the first of the datagrams on. */
START_TEST(a_uv_timer_that_blocks_between_two_polls_leaves_nothing_unheard)
{
  const peers_options_t crowd = {SPEAKING_ONCE(BY_UDP, 1000),
                                 .hearing_ns = 20000};
  held_t how = {1, 2, 1, true, 0, 0};
  int i;

  for (i = 0; i < 2; i++) {
    posts = i > 0;
    open_wheel_for(wheels[_i].tick_ms, wheels[_i].stall_ms);
    for (how.again_ms = 40; how.again_ms <= 240; how.again_ms += 20)
      for (how.paused_ms = 0; how.paused_ms <= 3; how.paused_ms += 3)
        hold_past_the_tick(&crowd, wheels[_i].tick_ms, &how);
    close_and_forget_wheel();
  }
}
END_TEST

/* ---- However the loop is held -------------------------------------------- */

static const struct {
  const char *name;
  hold_t hold;
  bool update;
} holds[] = {
    {"frozen between iterations", FROZEN_BETWEEN_ITERATIONS, false},
    {"frozen in a poll", FROZEN_IN_POLL, false},
    {"a uv_timer_t", HELD_BY_UV_TIMER, false},
    {"a uv_timer_t, updating", HELD_BY_UV_TIMER, true},
    {"a timer of the wheel", HELD_BY_WHEEL_TIMER, false},
    {"a timer of the wheel, updating", HELD_BY_WHEEL_TIMER, true},
    /* In a poll. */
    {"a read before the peers'", HELD_BY_READ_BEFORE_PEERS, false},
    {"a read before the peers', updating", HELD_BY_READ_BEFORE_PEERS, true},
    {"a read after the peers'", HELD_BY_READ_AFTER_PEERS, false},
    {"a read after the peers', updating", HELD_BY_READ_AFTER_PEERS, true},
};

static const peers_options_t half_silent = {.carrier = BY_PIPE,
                                            .count = 40,
                                            .timeout_ms = 3000,
                                            .every_ms = 500,
                                            .is_half_silent = true};

/* P6. Scenario 29: the timers of all begin at one moment, so that nothing else
 * wakes the wheel before they are due. 50 ms later all speak and the loop is
 * held, until 50 ms before to 400 ms after that. */
START_TEST(a_peer_that_speaks_within_its_timeout_is_never_cut_off)
{
  const peers_options_t crowd = {.carrier = BY_PIPE,
                                 .count = 20,
                                 .timeout_ms = 3000,
                                 .first_ms = 50,
                                 .every_ms = 500};
  uint64_t until_ms, opened_ms;

  for (until_ms = 2950; until_ms <= 3450; until_ms += 25) {
    open_wheel_for(10, 0);
    peers_open(&crowd);
    opened_ms = clock_now_ms();
    hold_loop(holds[_i].hold, opened_ms + 50, opened_ms + until_ms,
              holds[_i].update);
    run_until(opened_ms + 8000);
    ck_assert_msg(peers_closed() == 0, "%s, until %d ms: %u of %u",
                  holds[_i].name, (int)until_ms, peers_closed(), crowd.count);
    peers_close();
    close_and_forget_wheel();
  }
}
END_TEST

/* P6. Scenario 22. logstash-input-beats#141, bytedance/g3#929, ballerina
 * http#2669. The clock is set back by the time that the loop was blocked, and
 * by a second more at most, whoever blocked it. */
START_TEST(exactly_the_silent_half_is_closed)
{
  uint64_t length_ms, opened_ms;
  unsigned is_lossy;

  for (length_ms = 200; length_ms <= 10000; length_ms += 700)
    for (is_lossy = 0; is_lossy < 2; is_lossy++) {
      open_wheel_for(100, 0);
      peers_open(&half_silent);
      opened_ms = clock_now_ms();
      run_until(opened_ms + 990);
      hold_loop(holds[_i].hold, opened_ms + 1000, opened_ms + 1000 + length_ms,
                holds[_i].update);
      peers_lose_words_until(is_lossy ? opened_ms + 1000 + length_ms : 0);
      run_until(opened_ms + 15000);
      expect_silent_peers_closed(holds[_i].name, opened_ms + 3000,
                                 opened_ms + 3000 + 200 + length_ms + 1000);
      peers_close();
      close_and_forget_wheel();
    }
}
END_TEST

/* P6. A wheel that forgives no time; so without callbacks that hold the loop in
 * a poll, after which others refresh with the time when the poll returned. */
START_TEST(without_stalls_what_waits_is_heard_all_the_same)
{
  static const uint64_t lengths_ms[] = {100, 2900, 3000, 3400, 9000, 60000};
  uint64_t begin_ms, until_ms;
  size_t i;

  for (i = 0; i < LENGTH(lengths_ms); i++) {
    open_wheel_for(10, UINT32_MAX);
    peers_open(&half_silent);
    begin_ms = clock_now_ms();
    until_ms = begin_ms + 550 + lengths_ms[i];
    hold_loop(holds[_i].hold, begin_ms + 550, until_ms, holds[_i].update);
    run_until(until_ms + 6000);
    expect_silent_peers_closed(holds[_i].name, begin_ms + 3000,
                               until_ms + 3000);
    ck_assert_uint_eq(uvwheel_now(&wheel), uv_now(&loop));
    peers_close();
    close_and_forget_wheel();
  }
}
END_TEST

/* ---- Two stalls, ten of them --------------------------------------------- */

static const struct {
  const char *name;
  carrier_t carrier;
  unsigned stalls;
  uint64_t timeout_ms;
  uint64_t between_ms;
} in_a_row[] = {
    {"two, 2 s, pipes", BY_PIPE, 2, 2000, 700},
    {"two, 3 s, pipes", BY_PIPE, 2, 3000, 700},
    {"two, 2 s, datagrams", BY_UDP, 2, 2000, 700},
    {"two, 3 s, datagrams", BY_UDP, 2, 3000, 700},
    {"ten, 2 s, datagrams", BY_UDP, 10, 2000, 700},
    {"ten, 3 s, pipes", BY_PIPE, 10, 3000, 700},
    {"ten, 3 s, pipes, little between", BY_PIPE, 10, 3000, 110},
};

/* P6. Scenarios 23 and 28, with words that wait and words that are lost. */
START_TEST(stalls_in_a_row_cut_no_peer_off)
{
  const peers_options_t crowd = {.carrier = in_a_row[_i].carrier,
                                 .count = 100,
                                 .timeout_ms = in_a_row[_i].timeout_ms,
                                 .every_ms = 100};
  unsigned is_lossy, i;
  uint64_t from_ms;

  for (is_lossy = 0; is_lossy < 2; is_lossy++) {
    open_wheel_for(100, 0);
    peers_open(&crowd);
    for (i = 0; i < in_a_row[_i].stalls; i++) {
      run_until(clock_now_ms() + in_a_row[_i].between_ms);
      from_ms = clock_now_ms();
      peers_lose_words_until(is_lossy ? from_ms + 5000 : 0);
      virtual_time_advance_ms(5000);
      ck_assert_uint_eq(clock_now_ms(), from_ms + 5000);
    }
    run_until(clock_now_ms() + 10000);
    ck_assert_msg(peers_closed() == 0, "%s%s: %u of %u", in_a_row[_i].name,
                  is_lossy ? ", lost" : "", peers_closed(), crowd.count);
    peers_close();
    close_and_forget_wheel();
  }
}
END_TEST

/* ---- A machine that sleeps ----------------------------------------------- */

static const struct {
  const char *name;
  hold_t hold;
  unsigned times;
  uint64_t length_ms;
} suspensions[] = {
    {"2 min", FROZEN_IN_POLL, 1, 120000},
    {"2 min, between iterations", FROZEN_BETWEEN_ITERATIONS, 1, 120000},
    {"8 h", FROZEN_IN_POLL, 1, 28800000},
    {"8 h, between iterations", FROZEN_BETWEEN_ITERATIONS, 1, 28800000},
    {"3 times 1 h", FROZEN_IN_POLL, 3, 3600000},
    {"3 times 1 h, between iterations", FROZEN_BETWEEN_ITERATIONS, 3, 3600000},
};

/* Scenario 34, where the clock counts sleep (tokio#3185, node#6763): what peers
 * say while it sleeps, and in the first second after, is lost. */
START_TEST(a_machine_that_slept_cuts_no_peer_off)
{
  const peers_options_t crowd = {
      .carrier = BY_UDP, .count = 100, .timeout_ms = 5000};
  uint64_t begin_ms, end_ms, ms;
  unsigned i;

  open_wheel(100, 512);
  peers_open(&crowd);
  for (i = 0; i < suspensions[_i].times; i++) {
    /* They speak once a second while it is awake. */
    begin_ms = clock_now_ms() + 30000;
    for (ms = clock_now_ms() + 1000; ms <= begin_ms; ms += 1000) {
      peers_speak_at(ms);
      run_until(ms);
    }
    end_ms = begin_ms + 500 + suspensions[_i].length_ms;
    peers_lose_words_until(end_ms + 999);
    hold_loop(suspensions[_i].hold, begin_ms + 500, end_ms, false);
    run_until(end_ms + 500);
    peers_speak_at(end_ms + 1000);
    run_until(end_ms + 1000);
    ck_assert_msg(peers_closed() == 0, "%s: %u of 100", suspensions[_i].name,
                  peers_closed());
  }
  run_until(clock_now_ms() + 500);
  ck_assert_uint_eq(peers_closed(), 0);
  run_until(clock_now_ms() + 5000);
  ck_assert_uint_eq(peers_closed(), crowd.count);
  ck_assert_uint_eq(peers_cut_off(), 0);
  peers_close();
  rewind_clock();
}
END_TEST

/* ---- A clock that steps back --------------------------------------------- */

static uv_prepare_t before_poll;
static uv_check_t after_poll;
static uint64_t step_back_at_ms, step_ms;

static void
step_back(void)
{
  if (clock_now_ms() < step_back_at_ms)
    return;
  step_back_at_ms = NEVER;
  step_back_loop_ms(step_ms);
}

static void
on_before_poll(uv_prepare_t *prepare)
{
  (void)prepare;
  step_back();
}

static void
on_after_poll(uv_check_t *check)
{
  (void)check;
  step_back();
}

static const struct {
  const char *name;
  bool is_before_poll;
  uint64_t after_due_ms;
} step_backs[] = {
    {"after the poll, at the tick", false, 0},
    {"before the poll, at the tick", true, 0},
    {"after the poll, later", false, 1},
    {"before the poll, later", true, 1},
};

/* Timers assert that they do not fire early: between the driver's call and the
 * turn the clock steps back below the time of that call. */
START_TEST(a_clock_that_steps_back_before_the_turn_makes_nothing_early)
{
  static const uint64_t steps_ms[] = {1, 5, 11, 100, 60000};
  const char *name = step_backs[_i].name;
  static test_timer_t timer;
  size_t i;

  for (i = 0; i < LENGTH(steps_ms); i++) {
    open_wheel_for(10, 0);
    ck_assert_int_eq(uv_prepare_init(&loop, &before_poll), 0);
    ck_assert_int_eq(uv_check_init(&loop, &after_poll), 0);
    if (step_backs[_i].is_before_poll)
      uv_prepare_start(&before_poll, on_before_poll);
    else
      uv_check_start(&after_poll, on_after_poll);
    begin_test_timer(&timer, 100, 0);
    step_ms = steps_ms[i];
    step_back_at_ms =
        tick_ms_after(10, timer.due_ms) + step_backs[_i].after_due_ms;
    run_for(100 + 10 + 1 + step_ms + 1);
    run_for(100);
    require_in(name, timer.fired == 1);
    require_in(name, timer.fired_ms <= fires_at(timer.due_ms) + 1);
    require_in(name, stats_of_wheel().stalls == 0);
    uv_close((uv_handle_t *)&before_poll, NULL);
    uv_close((uv_handle_t *)&after_poll, NULL);
    close_and_forget_wheel();
  }
}
END_TEST

/* In parts of 32 datagrams that take longer than the wait, and shorter. */
static const peers_options_t in_many_parts[] = {
    {SPEAKING_ONCE(BY_UDP, 100), .hearing_ns = 1000000},
    {SPEAKING_ONCE(BY_UDP, 200), .hearing_ns = 100000},
};

/* The clock steps back once the wheel has listened, fired and become empty. */
static void
open_wheel_and_step_back(void)
{
  static test_timer_t timer;

  open_wheel_for(100, UINT32_MAX);
  test_timer_init(&timer);
  expect_punctual(&timer, 100);
  step_back_loop_ms(2 * TIMEOUT_MS);
}

static const struct {
  unsigned crowd;
  uint64_t again_ms; /* a uv_timer_t holds the loop again, before the step */
} within_spells[] = {{0, 0}, {1, 0}, {1, 40}};

/* P6. Before the peers speak, and once more while the loop hears them. */
START_TEST(a_clock_that_steps_back_leaves_nothing_unheard)
{
  uint64_t again_ms = within_spells[_i].again_ms, at_ms;

  open_wheel_and_step_back();
  peers_open(&in_many_parts[within_spells[_i].crowd]);
  at_ms = tick_ms_after(100, clock_now_ms() + TIMEOUT_MS);
  peers_speak_at(at_ms - 10);
  hold_loop(HELD_BY_UV_TIMER, at_ms - 50, at_ms + 1000, false);
  begin_prepare(&before_poll, on_before_poll);
  step_ms = 500;
  hold_again(at_ms + 1005, &again_ms);
  step_back_at_ms = at_ms + 1008 + again_ms;
  run_until(at_ms + TIMEOUT_MS);
  ck_assert_uint_eq(peers_closed(), 0);
  peers_close();
}
END_TEST

/* P6. Between two spells. */
START_TEST(a_clock_that_steps_back_after_a_spell_leaves_nothing_unheard)
{
  const peers_options_t crowd = {SPEAKING_ONCE(BY_UDP, 60),
                                 .hearing_ns = 1000000};

  open_wheel_for(100, 0);
  hold_past_the_tick(&crowd, 100, &held[_i]);
  virtual_time_step_back_ms(4 * TIMEOUT_MS);
  hold_past_the_tick(&crowd, 100, &held[_i]);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      EACH(what_waits_in_sockets_is_heard_before_timers_fire, crowds),
      EACH(a_uv_timer_that_blocks_between_two_polls_leaves_nothing_unheard,
           wheels),
      EACH(a_peer_that_speaks_within_its_timeout_is_never_cut_off, holds),
      EACH(exactly_the_silent_half_is_closed, holds),
      {without_stalls_what_waits_is_heard_all_the_same, 0,
       6 /* not in a poll */},
      EACH(stalls_in_a_row_cut_no_peer_off, in_a_row),
      EACH(a_machine_that_slept_cuts_no_peer_off, suspensions),
      EACH(a_clock_that_steps_back_before_the_turn_makes_nothing_early,
           step_backs),
      EACH(a_clock_that_steps_back_leaves_nothing_unheard, within_spells),
      EACH(a_clock_that_steps_back_after_a_spell_leaves_nothing_unheard, held),
  };

  return run_loop_tests("heard", tests, LENGTH(tests));
}
