/* SPDX-License-Identifier: MIT */

/* Turns (P8). The clock stands still unless a test moves it, so callbacks say
 * how long they take. */

#include <stdlib.h>

#include "support.h"

#define TICK_MS 10
#define TIMERS 200u

static uvwheel_timer_t timers[TIMERS];

/* What each callback takes, and does then. */
static uint64_t take_ns;
static bool is_updating;

/* Callbacks between two polls, and what they took. */
static uint64_t polls_before, in_a_row, row_began_ns, rows;
static uint64_t most_in_a_row, longest_ns;

static void begin_rows(void) {
  polls_before = UINT64_MAX;
  in_a_row = most_in_a_row = longest_ns = rows = 0;
  is_updating = false;
}

/* At each callback of the wheel or its mailbox. */
static void take_time(void) {
  if (virtual_time_polls() != polls_before) {
    polls_before = virtual_time_polls();
    row_began_ns = virtual_time_ns();
    in_a_row = 0;
    rows++;
  }
  virtual_time_advance_ns(take_ns);
  if (is_updating)
    uv_update_time(&loop);
  in_a_row++;
  most_in_a_row = max_of(most_in_a_row, in_a_row);
  longest_ns = max_of(longest_ns, virtual_time_ns() - row_began_ns);
}

static void on_timer(uvwheel_timer_t *timer) {
  (void)timer;
  take_time();
}

static uvwheel_timer_t distant;

static void start_timers(unsigned count, uint64_t timeout,
                         uvwheel_timer_cb cb) {
  unsigned i;

  for (i = 0; i < count; i++)
    begin_timer(&timers[i], cb, timeout, 0);
}

static void open_wheel_with_turns(uint32_t turn_ms, uint32_t turn_budget) {
  open_wheel_with(&(uvwheel_options_t){
      .tick_ms = TICK_MS, .turn_ms = turn_ms, .turn_budget = turn_budget});
  begin_rows();
}

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

static const uint32_t turns_ms[] = {0, 1, 2, 5, 7};
static const uint64_t takes_ns[] = {1 * MS, 2 * MS, 3 * MS, 7 * MS, 50 * MS};

/* How many callbacks of take_ns a turn has. */
static uint64_t callbacks_of_a_turn(uint32_t turn_ms) {
  uint64_t turn_ns = (turn_ms != 0 ? turn_ms : 5) * MS;

  return (turn_ns + take_ns - 1) / take_ns;
}

/* ---- One wheel ----------------------------------------------------------- */

static void expect_turns_of(uint32_t turn_ms, bool updates) {
  uint64_t in_a_turn = callbacks_of_a_turn(turn_ms);
  bool is_long = in_a_turn * take_ns > 2 * (turn_ms != 0 ? turn_ms : 5) * MS;

  open_wheel_with_turns(turn_ms, 0);
  is_updating = updates;
  begin_timer(&distant, on_timer, 100000, 0);
  start_timers(TIMERS, 50, on_timer);
  run_for(20000);
  ck_assert_uint_eq(stats_of_wheel().fired, TIMERS);
  ck_assert_uint_eq(most_in_a_row, in_a_turn);
  ck_assert_uint_eq(rows, (TIMERS + in_a_turn - 1) / in_a_turn);
  ck_assert_uint_eq(stats_of_wheel().turn_max_us, in_a_turn * take_ns / 1000);
  ck_assert_uint_eq(longest_ns, in_a_turn * take_ns);
  ck_assert_uint_eq(stats_of_wheel().turns_cut, rows - 1);
  ck_assert_uint_eq(stats_of_wheel().turns, rows);
  /* Nearly all are alike: the last one may be short. */
  ck_assert_uint_ge(stats_of_wheel().turns_overrun + 1, is_long ? rows : 0);
  ck_assert_uint_le(stats_of_wheel().turns_overrun, is_long ? rows : 0);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  close_and_forget_wheel();
}

/* P8. Also when the callbacks call uv_update_time. */
START_TEST(a_turn_takes_turn_ms_and_one_callback_at_most) {
  size_t i;

  take_ns = takes_ns[_i];
  for (i = 0; i < LENGTH(turns_ms); i++) {
    expect_turns_of(turns_ms[i], false);
    expect_turns_of(turns_ms[i], true);
  }
}
END_TEST

/* P8. The clock is read after 16 of them. */
START_TEST(quick_callbacks_have_the_clock_read_from_time_to_time) {
  take_ns = 100 * US;
  open_wheel_with_turns(0, 0);
  start_timers(TIMERS, 50, on_timer);
  run_for(1000);
  ck_assert_uint_ge(most_in_a_row, 50);
  ck_assert_uint_le(most_in_a_row, 50 + 15);
  ck_assert_uint_le(rows, 4);
  ck_assert_uint_eq(stats_of_wheel().fired, TIMERS);
}
END_TEST

/* The clock is read after the 1st, 3rd, 7th and 15th callback. */
static void slow_down(uvwheel_timer_t *timer) {
  uint64_t fired = stats_of_wheel().fired;

  take_ns = fired < 15 ? US : fired == 15 ? MS : 5 * MS;
  on_timer(timer);
}

/* P8 */
START_TEST(slow_callbacks_after_quick_ones_have_the_clock_read_after_each) {
  open_wheel_with_turns(0, 0);
  start_timers(TIMERS, 50, slow_down);
  run_for(2000);
  ck_assert_uint_eq(most_in_a_row, 16);
  ck_assert_uint_eq(rows, 1 + TIMERS - 16);
}
END_TEST

/* The clock was read after the 15th. */
static void take_1_s_at_last(uvwheel_timer_t *timer) {
  take_ns = stats_of_wheel().fired < 20 ? US : 1000 * MS;
  on_timer(timer);
}

/* P8 */
START_TEST(the_last_callbacks_of_a_turn_count) {
  open_wheel_with_turns(0, 0);
  begin_timer(&distant, on_timer, 100000, 0);
  start_timers(20, 50, take_1_s_at_last);
  run_for(1000);
  ck_assert_uint_ge(stats_of_wheel().turn_max_us, 1000000);
  ck_assert_uint_eq(stats_of_wheel().turns_overrun, 1);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
}
END_TEST

/* P8. The check examines 256 that were refreshed, and the turn fires 44. */
START_TEST(what_the_check_examines_counts_for_the_turn) {
  uvwheel_timer_t *many;
  unsigned fired = 0, i;

  open_wheel_with(&(uvwheel_options_t){
      .tick_ms = TICK_MS, .turn_budget = 300, .flags = UVWHEEL_FIFO});
  many = begin_timers(256 + 100, count_timer, 500, 0, &fired);
  run_for(100);
  for (i = 0; i < 256; i++)
    ck_assert_int_eq(uvwheel_timer_refresh(&many[i]), 0);
  run_for(450);
  ck_assert_uint_eq(fired, 100);
  ck_assert_uint_eq(stats_of_wheel().turns, 2);
  ck_assert_uint_eq(stats_of_wheel().turns_cut, 1);
  uvwheel_close(&wheel, NULL);
  free(many);
}
END_TEST

#ifdef __linux__ /* where reads of the clock may take time */
static const struct {
  unsigned fire;      /* timers */
  unsigned refreshed; /* timers, of which the check examines 256 at most */
  uint64_t reads;     /* after the first one */
} few_reads[] = {{1, 1, 1}, {0, 300, 1}, {1, 300, 2}};

/* P8. When it begins, and after a callback; at its end, if it has examined
 * timers that were refreshed. */
START_TEST(a_turn_reads_the_clock_no_more_than_it_must) {
  unsigned fired = 0, refreshed = few_reads[_i].refreshed, i;
  uvwheel_timer_t *many;

  take_ns = 0;
  open_wheel_with_turns(0, 0);
  start_timers(few_reads[_i].fire, 50, on_timer);
  many = begin_timers(refreshed, count_timer, 50, 0, &fired);
  run_for(10);
  for (i = 0; i < refreshed; i++)
    (void)uvwheel_timer_refresh(&many[i]);
  virtual_time_advance_ms(48);
  virtual_time_set_read_ns(1 * US);
  while (stats_of_wheel().rescheduled < refreshed ||
         stats_of_wheel().fired < few_reads[_i].fire)
    uv_run(&loop, UV_RUN_NOWAIT);
  virtual_time_set_read_ns(0);
  ck_assert_uint_eq(stats_of_wheel().fired, few_reads[_i].fire);
  ck_assert_uint_eq(stats_of_wheel().turn_max_us, few_reads[_i].reads);
  uvwheel_close(&wheel, NULL);
  free(many);
}
END_TEST
#endif

static void post_once_more(uvwheel_post_t *post, int status) {
  virtual_time_advance_ns(post->data != NULL ? 1000 * MS : 20 * US);
  if (status == 0)
    ck_assert_int_eq(uvwheel_post(&wheel, post, post_once_more), 0);
}

/* P8. Scenario 52. Quick callbacks of the mailbox tell nothing of others. */
START_TEST(
    slow_callbacks_beside_quick_requests_have_the_clock_read_after_each) {
  static uvwheel_post_t posts[100];
  size_t i;

  take_ns = 5 * MS;
  open_wheel_with_turns(5, 0);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  for (i = 0; i < LENGTH(posts); i++) {
    posts[i].data = NULL;
    ck_assert_int_eq(uvwheel_post(&wheel, &posts[i], post_once_more), 0);
  }
  start_timers(TIMERS, 50, on_timer);
  run_for(TIMERS * 10);
  ck_assert_uint_eq(most_in_a_row, 1);
  ck_assert_uint_eq(stats_of_wheel().fired, TIMERS);
  take_ns = 0;
  /* The last one of a batch counts, too. It takes a second. */
  posts[LENGTH(posts) - 1].data = &take_ns;
  run_for(100);
  ck_assert_uint_ge(stats_of_wheel().turn_max_us, 1000000);
}
END_TEST

static const uint64_t long_ns[] = {UINT32_MAX * MS, (uint64_t)-1};

/* P8. Not one of UINT32_MAX ms, 50 days, either; nor does a turn seem to have
 * taken UINT64_MAX ns if the clock steps back by one. */
START_TEST(no_limit_is_no_limit) {
  take_ns = long_ns[_i];
  open_wheel_with_turns(UINT32_MAX, UINT32_MAX);
  start_timers(TIMERS, 50, on_timer);
  run_for(1000);
  ck_assert_uint_eq(rows, 1);
  ck_assert_uint_eq(most_in_a_row, TIMERS);
  ck_assert_uint_eq(stats_of_wheel().turns_cut, 0);
  ck_assert_uint_eq(stats_of_wheel().turns_overrun, 0);
  ck_assert_uint_eq(stats_of_wheel().turn_max_us,
                    _i == 0 ? TIMERS * take_ns / US : 0);
  rewind_clock();
}
END_TEST

/* ---- An idle loop -------------------------------------------------------- */

#define MILLION 1000000u

static uvwheel_timer_t *many;
static unsigned many_fired, many_errors;

/* It must not come again. (A million assertions would take check too long.) */
static void on_one_of_many(uvwheel_timer_t *timer) {
  many_errors += timer->data == NULL;
  timer->data = NULL;
  many_fired++;
}

static void start_many(unsigned count) {
  many_fired = many_errors = 0;
  many = begin_timers(count, on_one_of_many, 50, 0, &many);
}

static const struct {
  uint32_t turn_budget;
  unsigned count;
} idle_loops[] = {{10, 100000}, {100, MILLION}, {10000, MILLION}};

/* P8, P9. Scenario 42, with fewer timers for the smallest budget. Only the poll
 * before the first turn sleeps. */
START_TEST(an_idle_loop_does_not_sleep_between_the_turns_of_a_mass_expiry) {
  uint64_t sleeps;

  open_wheel_with(&(uvwheel_options_t){
      .tick_ms = TICK_MS, .turn_budget = idle_loops[_i].turn_budget});
  start_many(idle_loops[_i].count);
  sleeps = virtual_time_sleeps();
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(virtual_time_sleeps() - sleeps, 1);
  ck_assert_uint_eq(many_fired, idle_loops[_i].count);
  ck_assert_uint_eq(many_errors, 0);
  ck_assert_uint_eq(virtual_time_ns() / MS, fires_at(START_MS + 50));
  uvwheel_close(&wheel, NULL);
  free(many);
}
END_TEST

/* ---- Beside polls and stops ---------------------------------------------- */

#define BUDGET 10000u

static unsigned fired_before, next_to_stop, stopped_while_due;

/* After each poll, once the first turn was cut: no more have fired than the
 * budget, and a thousand of those that wait are stopped and their memory is
 * used for other things. */
static void stop_some(uv_check_t *check) {
  unsigned stopped = 0;

  (void)check;
  virtual_time_advance_ms(1);
  ck_assert_uint_le(uv_now(&loop), START_MS + 10000); /* or it never ends */
  ck_assert_uint_le(many_fired - fired_before, BUDGET);
  fired_before = many_fired;
  if (many_fired == 0 || uvwheel_count(&wheel) == 0)
    return;
  for (; next_to_stop < MILLION && stopped < 1000; next_to_stop += 7)
    if (uvwheel_timer_is_active(&many[next_to_stop])) {
      many_errors += uvwheel_timer_stop(&many[next_to_stop]) != 0;
      memset(&many[next_to_stop], 0, sizeof *many);
      stopped++;
    }
  stopped_while_due += stopped;
}

/* P8. Scenario 18. netty#11724, hertzbeat#4328. */
START_TEST(a_million_due_at_once_leave_room_for_polls_and_stops) {
  const uvwheel_options_t options = {.tick_ms = TICK_MS,
                                     .turn_budget = BUDGET,
                                     .turn_ms = UINT32_MAX,
                                     .flags = slot_kinds[_i].flags};
  const char *name = slot_kinds[_i].name;
  static uv_check_t check;

  fired_before = next_to_stop = stopped_while_due = 0;
  open_wheel_with(&options);
  ck_assert_int_eq(uv_check_init(&loop, &check), 0);
  ck_assert_int_eq(uv_check_start(&check, stop_some), 0);
  uv_unref((uv_handle_t *)&check);
  start_many(MILLION);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  require_in(name, many_errors == 0);
  require_in(name, stopped_while_due > 50000);
  require_in(name, many_fired + stopped_while_due == MILLION);
  uv_close((uv_handle_t *)&check, NULL);
  uvwheel_close(&wheel, NULL);
  free(many);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(a_turn_takes_turn_ms_and_one_callback_at_most, takes_ns),
      TEST(quick_callbacks_have_the_clock_read_from_time_to_time),
      TEST(slow_callbacks_after_quick_ones_have_the_clock_read_after_each),
      TEST(the_last_callbacks_of_a_turn_count),
      TEST(what_the_check_examines_counts_for_the_turn),
#ifdef __linux__
      EACH(a_turn_reads_the_clock_no_more_than_it_must, few_reads),
#endif
      TEST(slow_callbacks_beside_quick_requests_have_the_clock_read_after_each),
      EACH(no_limit_is_no_limit, long_ns),
      EACH(an_idle_loop_does_not_sleep_between_the_turns_of_a_mass_expiry,
           idle_loops),
      EACH(a_million_due_at_once_leave_room_for_polls_and_stops, slot_kinds),
  };

  return run_loop_tests("turns", tests, LENGTH(tests));
}
