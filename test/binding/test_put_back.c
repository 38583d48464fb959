/* SPDX-License-Identifier: MIT */

/* What a stall does (P6): a timer that measures silence, and was waiting when
 * the stall was noticed, is put back when it expires. test_stalls.c has what a
 * stall is, test_chains.c, test_heard.c and test_busy.c what that is for. */

#include <stdlib.h>

#include "p6.h"
#include "support.h"

#define TICK_MS 10

static void open_wheel_with_budget(uint32_t turn_budget) {
  open_wheel_with(&(uvwheel_options_t){
      .tick_ms = TICK_MS, .slots = 64, .turn_budget = turn_budget});
}

/* Late to the tick of that due time. */
static void stall_at(uint64_t due_ms, uint64_t late_ms) {
  uint64_t stalls = stats_of_wheel().stalls;

  come_late(due_ms, late_ms);
  ck_assert_uint_eq(stats_of_wheel().stalls, stalls + 1);
}

/* The timer fires at the tick after that, not before. */
static void expect_fires_at(test_timer_t *timer, uint64_t due_ms) {
  unsigned fired = timer->fired;

  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer->base),
                    excess(due_ms, uv_now(&loop)));
  run_for(fires_at(due_ms) - uv_now(&loop) - 1);
  ck_assert_uint_eq(timer->fired, fired);
  run_for(1);
  ck_assert_uint_eq(timer->fired, fired + 1);
  ck_assert_uint_eq(timer->fired_ms, fires_at(due_ms));
}

/* ---- How far ------------------------------------------------------------- */

/* All are due 3 ms before a tick. A wait that began when the stall ends would
 * end after the stall, the wait, and these 3 ms. */
static const struct {
  uint64_t timeout;
  uint64_t repeat; /* at the start, and afterwards */
  uint64_t repeat_then;
  uint64_t late_ms;
  uint64_t back_ms;
} backs[] = {
    {5000, 0, 0, 251, 2 * 251},
    {5000, 0, 0, 1001, 1001 + 1000},
    {5000, 0, 0, 9000, 9000 + 1000},
    {5000, 0, 0, 86400000, 86400000 + 1000},
    {100, 0, 0, 300, 300 + 100 + 3},
    {5000, 20000, 20000, 300, 2 * 300},
    {60000, 100, 100, 9000, 9000 + 100 + 3},
    {0, 60000, 60000, 9000, 9000 + 1000},
    /* Its interval changes while it waits. */
    {60000, 100, 200, 9000, 9000 + 200 + 3},
    {60000, 0, 100, 9000, 9000 + 100 + 3},
    {100, 20000, 0, 9000, 9000 + 100 + 3},
};

/* P6. It is the only timer, and the next one to wake the loop up. */
START_TEST(a_timer_is_put_back_by_the_stall_and_at_most_a_second) {
  static test_timer_t timer;
  uint64_t due_ms;

  open_wheel_with_budget(0);
  begin_heard_timer(&timer, backs[_i].timeout, backs[_i].repeat);
  if (backs[_i].repeat_then != backs[_i].repeat)
    uvwheel_timer_set_repeat(&timer.base, backs[_i].repeat_then);
  due_ms = timer.due_ms;
  stall_at(due_ms, backs[_i].late_ms);
  ck_assert_uint_eq(stats_of_wheel().stall_max_ms, backs[_i].late_ms);
  ck_assert_uint_eq(stats_of_wheel().put_back, 1);
  ck_assert_uint_eq(stats_of_wheel().fired, 0);
  ck_assert_uint_eq(stats_of_wheel().started, 1);
  ck_assert_uint_eq(stats_of_wheel().rescheduled,
                    backs[_i].repeat > backs[_i].timeout);
  expect_fires_at(&timer, due_ms + backs[_i].back_ms);
  ck_assert_uint_le(stats_of_wheel().lateness_max_ms, TICK_MS);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer.base),
                   backs[_i].repeat_then != 0);
  rewind_clock();
}
END_TEST

/* ---- Stalls that follow each other --------------------------------------- */

/* How many ms after the stall before it each begins, and how long it lasts. */
typedef struct stall_s {
  uint64_t after_ms;
  uint64_t late_ms;
} stall_t;

#define MOST 9

/* Each gives itself and as much again, at most a second: the first one mostly
 * 11,000 ms. (0: there are no more.) */
static const struct {
  stall_t stalls[MOST];
  uint64_t back_ms;
} chains[] = {
    {{{0, 10000}}, 11000},
    {{{0, 10000}, {500, 400}}, 11000 + 800},
    {{{0, 10000}, {1000, 12000}}, 11000 + 13000},
    {{{0, 10000}, {10990, 400}}, 11000 + 800},
    {{{0, 10000}, {11000, 400}}, 800},
    {{{0, 300}, {590, 300}}, 600 + 600},
    {{{0, 300}, {600, 300}}, 600},
    {{{0, 10000}, {500, 400}, {11790, 600}}, 11800 + 1200},
    {{{0, 10000}, {500, 400}, {11800, 600}}, 1200},
    {{{0, 3000}, {9, 300}, {9, 300}, {9, 300}, {9, 300}, {9, 300}}, 7000},
    /* Six at most: the sixth and a seventh begin anew. */
    {{{0, 3000}, {9, 300}, {9, 300}, {9, 300}, {9, 300}, {9, 300}, {9, 500}},
     600 + 1000},
    {{{0, 300},
      {9, 300},
      {9, 300},
      {9, 300},
      {9, 300},
      {9, 300},
      {9, 500},
      {9, 1500},
      {9, 400}},
     600 + 1000 + 2500 + 800},
};

/* P6. The other timer comes late, once for each stall. */
START_TEST(stalls_that_follow_each_other_add_up) {
  const stall_t *stall = chains[_i].stalls;
  static test_timer_t other, timer;
  uint64_t due_ms;

  set_clock_ms(START_MS / TICK_MS * TICK_MS);
  open_wheel_with_budget(0);
  begin_heard_timer(&timer, 60000, 0);
  due_ms = timer.due_ms;
  run_for(5000);
  test_timer_init(&other);
  for (; stall < chains[_i].stalls + MOST && stall->late_ms != 0; stall++) {
    test_timer_start(&other, excess(stall->after_ms, 1), 0);
    stall_at(other.due_ms, stall->late_ms);
  }
  run_for(due_ms + TICK_MS - uv_now(&loop));
  ck_assert_uint_eq(stats_of_wheel().put_back, 1);
  expect_fires_at(&timer, due_ms + chains[_i].back_ms);
}
END_TEST

/* How long the stalls of a chain last, and after which its peer is heard. */
static const struct {
  uint64_t late_ms[MAX_STALLS + 1];
  int heard_after;
  uint64_t back_ms;
} refreshed[] = {
    {{10000, 400, 600}, 1, 800 + 1200},
    {{10000, 400, 600}, 2, 1200},
    {{10000, 400, 600}, 3, 0},
    /* The sixth and a seventh begin anew. */
    {{3000, 400, 400, 400, 400, 400, 600}, 1, 800 + 1200},
    {{3000, 400, 400, 400, 400, 400, 600}, 5, 800 + 1200},
    {{3000, 400, 400, 400, 400, 400, 600}, 6, 1200},
    {{3000, 400, 400, 400, 400, 400, 600}, 7, 0},
};

/* P6. What ended before a refresh gives nothing after it, though in one chain.
 * The stalls are 2 s apart, and the peer is heard as one ends. */
START_TEST(a_refresh_forgets_the_stalls_before_it) {
  static test_timer_t other, timer;
  uint64_t back_ms = refreshed[_i].back_ms;
  int i;

  open_wheel_with_budget(0);
  begin_heard_timer(&timer, 60000, 0);
  test_timer_init(&other);
  for (i = 0; i <= MAX_STALLS && refreshed[_i].late_ms[i] != 0; i++) {
    test_timer_start(&other, 2000, 0);
    stall_at(other.due_ms, refreshed[_i].late_ms[i]);
    if (i + 1 == refreshed[_i].heard_after)
      test_timer_refresh(&timer);
  }
  run_for(timer.due_ms + TICK_MS - uv_now(&loop));
  ck_assert_uint_eq(stats_of_wheel().put_back, back_ms != 0);
  run_for(10000);
  ck_assert_uint_eq(timer.fired_ms, fires_at(timer.due_ms + back_ms));
}
END_TEST

/* How far after due_ms it is due. */
static uint64_t back_by(const test_timer_t *timer, uint64_t due_ms) {
  return excess(uv_now(&loop) + uvwheel_timer_get_due_in(&timer->base), due_ms);
}

/* When they are due, after the first stall begins, and whether that is before
 * the fifth has ended. Each takes 300 ms. */
static const struct {
  uint64_t due_ms;
  bool is_before;
} crowds[] = {{0, true},
              {4 * 300 - 50, true},
              {5 * 300 - 50, true},
              {5 * 300 + 50, false}};

/* P6, P8. Each iteration is a stall, and a turn puts some of them back. While
 * those wait that were due when the fifth ended, all add up. A timer that was
 * not due then gets the sixth, as long as it has grown, and the next one. */
START_TEST(the_sixth_stall_grows_while_timers_wait_for_their_turn) {
  uint64_t begin_ms, put_back = 0, forgotten_ms = 0, before_ms = 0, back_ms;
  static test_timer_t crowd[150], ticking, later, other;
  size_t i;

  open_wheel_with(&(uvwheel_options_t){
      .tick_ms = TICK_MS, .turn_budget = 10, .flags = UVWHEEL_FIFO});
  begin_ms = fires_at(START_MS + 60000);
  for (i = 0; i < LENGTH(crowd); i++)
    begin_heard_timer(&crowd[i], begin_ms + crowds[_i].due_ms - START_MS, 0);
  begin_heard_timer(&later, 75000, 0);
  begin_test_timer(&ticking, 60000, TICK_MS);
  run_for(begin_ms - 1 - uv_now(&loop));
  virtual_time_advance_ms(1);
  while (put_back < LENGTH(crowd)) {
    virtual_time_advance_ms(300);
    uv_update_time(&loop);
    uv_run(&loop, UV_RUN_NOWAIT);
    back_ms = 2 * stats_of_wheel().stall_sum_ms - forgotten_ms;
    for (; put_back < min_of(stats_of_wheel().put_back, LENGTH(crowd));
         put_back++)
      ck_assert_uint_eq(back_by(&crowd[put_back], crowd[0].due_ms), back_ms);
    if (stats_of_wheel().stalls == MAX_STALLS && !crowds[_i].is_before)
      forgotten_ms = before_ms;
    if (stats_of_wheel().stalls == 5 ||
        (stats_of_wheel().stalls == 10 && !crowds[_i].is_before))
      before_ms = 2 * stats_of_wheel().stall_sum_ms;
    ck_assert_uint_lt(uv_now(&loop), begin_ms + 100 * 300);
  }
  ck_assert_uint_gt(stats_of_wheel().stalls, 2 * MAX_STALLS);
  back_ms = 2 * stats_of_wheel().stall_sum_ms - before_ms;
  begin_test_timer(&other, 0, 0);
  stall_at(other.due_ms, 400);
  run_for(later.due_ms + TICK_MS - uv_now(&loop));
  expect_fires_at(&later, later.due_ms + back_ms + 800);
}
END_TEST

static unsigned holds_left;
static uint64_t held_until_ms;

static void hold_for_300_ms(void) {
  if (holds_left == 0)
    return;
  holds_left--;
  virtual_time_advance_ms(300);
  held_until_ms = virtual_time_ns() / 1000000;
}

static void hold_before_poll(uv_prepare_t *unused) {
  (void)unused;
  hold_for_300_ms();
}

static void hold_after_poll(uv_check_t *unused) {
  (void)unused;
  hold_for_300_ms();
}

/* P6. Two iterations are held twice each, and the wheel looks in between: that
 * is one chain, and gives no more than a refresh at its end. */
START_TEST(stalls_that_are_seen_in_parts_are_one_chain) {
  static test_timer_t timer, ticking;
  static uv_prepare_t prepare;
  static uv_check_t check;

  open_wheel_with_budget(0);
  begin_prepare(&prepare, hold_before_poll);
  ck_assert_int_eq(uv_check_init(&loop, &check), 0);
  ck_assert_int_eq(uv_check_start(&check, hold_after_poll), 0);
  begin_test_timer(&ticking, TICK_MS, TICK_MS);
  run_for(1000);
  begin_heard_timer(&timer, 1000, 0);
  holds_left = 2 * 2;
  run_for(10000);
  ck_assert_uint_eq(stats_of_wheel().stall_sum_ms, 2 * 2 * 300);
  ck_assert_uint_eq(timer.fired_ms, fires_at(held_until_ms + 1000));
}
END_TEST

static uint64_t work_ms;

static void work(test_timer_t *unused) {
  (void)unused;
  virtual_time_advance_ms(work_ms);
}

/* ---- Who is put back ----------------------------------------------------- */

#define TIMEOUT_MS 5000

static void restart_itself(test_timer_t *timer) {
  test_timer_start(timer, TIMEOUT_MS, 0);
}

static void expect_again(test_timer_t *timer) {
  test_timer_expect(timer, TIMEOUT_MS);
}

/* What happens to a timer, from left to right. Then the loop comes late to it:
 *
 *   s  start             a  again         c  it fires, and its callback starts
 *   S  with a repeat     x  stop             it, or (C) expects it
 *   e  expect            f  it is due     b  it is put back after a stall
 *   r  refresh           F  fire_soonest  o  a stall ends before it is due
 *   n  set_repeat        N  to none       d  it is closed and made anew
 */
static const char *const put_backs[] = {
    "e",   "sr",   "se",   "Se",   "ee",    "sxsr", "sxe",  "exe",
    "Sr",  "sde",  "Sfr",  "Sfe",  "SFr",   "efe",  "sFe",  "ea",
    "Sra", "Sraa", "Sar",  "ena",  "enNa",  "snra", "Sxar", "Srn",
    "en",  "enN",  "eb",   "srb",  "ebe",   "srbr", "Srba", "Sabfr",
    "eo",  "eor",  "eofr", "eofe", "enofa", "scr",  "sC",   "eC"};
static const char *const punctuals[] = {
    "s",    "S",   "srs",  "ss",   "es",   "eS",    "srxs", "exs",
    "SrS",  "eds", "Sf",   "Srf",  "SF",   "SrF",   "efs",  "eFs",
    "sa",   "Sa",  "Saa",  "Sfa",  "Srfa", "Saf",   "Sraf", "sna",
    "enaf", "Sxa", "Srxa", "enxa", "exna", "enxaf", "Sn",   "Sfn",
    "snN",  "ebs", "srbs", "ebxs", "enbf", "Srbxa", "Sab",  "Sabf",
    "so",   "eof", "sc",   "ec",   "eCs",  "efna"};

static void cause_stall(void) {
  static test_timer_t other;

  begin_test_timer(&other, 0, 0);
  stall_at(other.due_ms, 1000);
}

static void act(test_timer_t *timer, char what) {
  uint64_t due_ms = uv_now(&loop) + uvwheel_timer_get_due_in(&timer->base);

  timer->then = what == 'c'   ? restart_itself
                : what == 'C' ? expect_again
                              : NULL;
  timer->may_be_early = what == 'F';
  if (what == 's' || what == 'S')
    test_timer_start(timer, TIMEOUT_MS, what == 'S' ? TIMEOUT_MS : 0);
  else if (what == 'e')
    test_timer_expect(timer, TIMEOUT_MS);
  else if (what == 'r')
    test_timer_refresh(timer);
  else if (what == 'a')
    ck_assert_int_eq(uvwheel_timer_again(&timer->base), 0);
  else if (what == 'x')
    test_timer_stop(timer);
  else if (what == 'n' || what == 'N')
    uvwheel_timer_set_repeat(&timer->base, what == 'n' ? TIMEOUT_MS : 0);
  else if (what == 'F')
    ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 1), 1);
  else if (what == 'd')
    uvwheel_timer_close(&timer->base), test_timer_init(timer);
  else if (what == 'o')
    cause_stall();
  else if (what == 'b')
    stall_at(due_ms, 3000);
  else
    come_late(due_ms, 0);
}

/* A stall that follows none gives nothing to a timer that was put back before
 * (eof). P6. Scenario 74. In either kind of wheel, as a restart differs. */
START_TEST(a_timer_that_measures_silence_is_put_back) {
  int which = _i - (int)LENGTH(put_backs);
  bool is_put_back = which < 0;
  const char *acts = is_put_back ? put_backs[_i] : punctuals[which], *what;
  test_timer_t timer;
  uint64_t put_back;
  uint32_t flags;

  for (flags = 0; flags <= UVWHEEL_FIFO; flags++) {
    open_wheel_with(&(uvwheel_options_t){.tick_ms = TICK_MS, .flags = flags});
    test_timer_init(&timer);
    for (what = acts; *what != '\0'; what++)
      act(&timer, *what);
    put_back = stats_of_wheel().put_back;
    timer.fired = 0;
    act(&timer, 'b');
    require_in(acts, timer.fired == !is_put_back);
    require_in(acts, stats_of_wheel().put_back > put_back || !is_put_back);
    close_and_forget_wheel();
  }
}
END_TEST

#define MANY 100000u

static const struct {
  uint32_t turn_budget;
  uint64_t read_ns; /* what it takes to read the clock */
  uint64_t most;    /* that are put back in a turn     */
} cuts[] = {
    {1000, 0, 1000},
#ifdef __linux__ /* elsewhere virtual time takes none */
    {UINT32_MAX, 1000000, UVWHEEL_DEFAULT_TURN_MS * 16},
#endif
};

/* P6, P8. What is left shows as overdue. */
START_TEST(put_backs_are_cut_by_the_limits_of_a_turn) {
  uint64_t put_back = 0, before;
  unsigned fired = 0, turns;
  uvwheel_timer_t *many;
  uint64_t i;

  open_wheel_with_budget(cuts[_i].turn_budget);
  many = begin_timers(MANY, count_timer, 5000, 0, &fired);
  for (i = 0; i < MANY; i++)
    require(uvwheel_timer_refresh(&many[i]) == 0);
  virtual_time_advance_ms(9000);
  virtual_time_set_read_ns(cuts[_i].read_ns);
  for (turns = 0; put_back < MANY; turns++) {
    before = put_back;
    uv_run(&loop, UV_RUN_NOWAIT);
    put_back = stats_of_wheel().put_back;
    ck_assert_uint_le(put_back - before, cuts[_i].most);
    ck_assert(put_back > before || turns < 3);
    ck_assert(stats_of_wheel().overdue_ms > 3000 || put_back == MANY);
  }
  virtual_time_set_read_ns(0);
  ck_assert_uint_eq(fired, 0);
  ck_assert_uint_eq(stats_of_wheel().started, MANY);
  run_for(20000);
  ck_assert_uint_eq(fired, MANY);
  uvwheel_close(&wheel, NULL);
  free(many);
}
END_TEST

/* ---- Stalls of the wheel's own ------------------------------------------- */

static void work_and_update(test_timer_t *unused) {
  work(unused);
  uv_update_time(&loop);
}

static void (*const works[])(test_timer_t *) = {work, work_and_update};

/* P6. Scenario 59. Those whose peers were heard are put back by the first six
 * stalls. */
START_TEST(slow_callbacks_are_called_one_after_the_other) {
  uint64_t most_stalls = _i / 2 ? MAX_STALLS : 0, sleeps;
  static test_timer_t timers[100];
  size_t i;

  work_ms = 300;
  open_wheel_with_budget(0);
  for (i = 0; i < LENGTH(timers); i++) {
    (_i / 2 ? begin_heard_timer : begin_test_timer)(&timers[i], 5000, 0);
    timers[i].then = works[_i % 2];
  }
  sleeps = virtual_time_sleeps();
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(fired_in_all, LENGTH(timers));
  ck_assert_uint_le(virtual_time_sleeps() - sleeps, 2 + most_stalls);
  ck_assert_uint_le(uv_now(&loop), START_MS + 5000 + 10 * TICK_MS +
                                       (100 + most_stalls) * work_ms);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(a_timer_is_put_back_by_the_stall_and_at_most_a_second, backs),
      EACH(stalls_that_follow_each_other_add_up, chains),
      EACH(a_refresh_forgets_the_stalls_before_it, refreshed),
      EACH(the_sixth_stall_grows_while_timers_wait_for_their_turn, crowds),
      TEST(stalls_that_are_seen_in_parts_are_one_chain),
      {a_timer_that_measures_silence_is_put_back, 0,
       LENGTH(put_backs) + LENGTH(punctuals)},
      EACH(put_backs_are_cut_by_the_limits_of_a_turn, cuts),
      {slow_callbacks_are_called_one_after_the_other, 0, 4},
  };

  return run_loop_tests("put_back", tests, LENGTH(tests));
}
