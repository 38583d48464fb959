/* SPDX-License-Identifier: MIT */

/* Whoever blocks the loop, time between two polls counts; where a loop sleeps,
 * it does not (P6). Scenarios 27 and 47. */

#include "p6.h"
#include "support.h"

/* ---- Who blocks the loop ------------------------------------------------- */

enum way { TIMER, CLOSE, OWN, POLL, PREPARE, CHECK, WAYS };

static const char *const names[WAYS] = {"uv_timer_t", "close",   "the wheel's",
                                        "poll",       "prepare", "check"};

static enum way way;
static uv_timer_t timer;
static uv_async_t async;
static uv_prepare_t prepare;
static uv_check_t check;
static test_timer_t own;
static test_timer_t timers[100];
static uint64_t length_ms;
static enum { RETURN, UPDATE, RESTART } then;

static void
block(void)
{
  virtual_time_advance_ms(length_ms);
  if (then == UPDATE)
    uv_update_time(&loop);
  if (then == RESTART) {
    test_timer_stop(&timers[0]);
    test_timer_start(&timers[0], 15000, 0);
  }
}

static void
block_in_timer(uv_timer_t *unused)
{
  (void)unused;
  block();
}

static void
on_poll(uv_async_t *unused)
{
  (void)unused;
  if (way == POLL)
    block();
  else
    virtual_time_advance_ms(2);
}

static void
block_in_prepare(uv_prepare_t *handle)
{
  uv_prepare_stop(handle);
  block();
}

static void
block_in_check(uv_check_t *handle)
{
  uv_check_stop(handle);
  block();
}

static void
block_in_close(uv_handle_t *unused)
{
  (void)unused;
  block();
}

static void
block_in_own(test_timer_t *unused)
{
  (void)unused;
  block();
}

static void
begin_way(uv_timer_t *unused)
{
  (void)unused;
  ck_assert_int_eq(uv_async_send(&async), 0);
  if (way == TIMER)
    ck_assert_int_eq(uv_timer_start(&timer, block_in_timer, 0, 0), 0);
  else if (way == PREPARE)
    ck_assert_int_eq(uv_prepare_start(&prepare, block_in_prepare), 0);
  else if (way == CHECK)
    ck_assert_int_eq(uv_check_start(&check, block_in_check), 0);
  else if (way == CLOSE)
    uv_close((uv_handle_t *)&check, block_in_close);
  else if (way == OWN)
    test_timer_start(&own, 0, 0);
}

/* The clock that counts has steps of 4 ms. */
static bool
is_about(uint64_t counted_ms, uint64_t ms)
{
  return counted_ms + 4 >= ms && counted_ms <= ms + 4;
}

/* P6. By each way 10 and 20 s, on a wheel with one timer of 15 s and on one
 * that has a timer at each tick. The first three ways also with uv_update_time;
 * in a poll, prepare or check callback that hides when the poll returned. And
 * with a stop of the only timer, which starts again at once. */
START_TEST(each_callback_that_blocks_the_loop_is_a_stall)
{
  bool is_dense = _i & 1;
  static uv_timer_t starter;
  size_t row = (size_t)_i / 4, i;

  way = (enum way)(row < WAYS ? row : (row - WAYS) % POLL);
  then = row < WAYS ? RETURN : row < WAYS + POLL ? UPDATE : RESTART;
  length_ms = _i & 2 ? 20000 : 10000;
  ck_assert_int_eq(uv_timer_init(&loop, &timer), 0);
  ck_assert_int_eq(uv_async_init(&loop, &async, on_poll), 0);
  ck_assert_int_eq(uv_prepare_init(&loop, &prepare), 0);
  ck_assert_int_eq(uv_check_init(&loop, &check), 0);
  open_wheel(10, 512);
  test_timer_init(&own);
  own.then = block_in_own;
  test_timer_init_all(timers, LENGTH(timers));
  test_timer_start(&timers[0], 15000, 0);
  for (i = 1; is_dense && i < LENGTH(timers); i++)
    test_timer_start(&timers[i], 10 * i, 1000);
  begin_uv_timer(&starter, begin_way, 3003, 0);
  run_for(3003 + length_ms + 5);
  require_in(names[way], stats_of_wheel().stalls == 1);
  require_in(names[way], is_about(stats_of_wheel().stall_sum_ms, length_ms));
  require_in(names[way],
             is_about(stats_of_wheel().set_back_ms, length_ms + 1000));
  require_in(names[way], timers[0].fired == 0);
  run_for(17000);
  require_in(names[way], timers[0].fired == 1);
}
END_TEST

static void
on_idle(uv_idle_t *unused)
{
  (void)unused;
  virtual_time_advance_ms(1);
}

/* P6. The uv_timer_t was started after the driver, which is due in the same
 * millisecond; also in a loop that an idle handle keeps from sleeping. */
START_TEST(a_uv_timer_that_is_due_with_the_driver_is_a_stall_if_it_blocks)
{
  static test_timer_t due, distant;
  static uv_idle_t idle;

  open_wheel(10, 512);
  run_for(10); /* nothing waits for the first poll */
  begin_test_timer(&due, 3000, 0);
  begin_test_timer(&distant, 100000, 0);
  then = RETURN;
  length_ms = 10000;
  ck_assert_int_gt(uv_backend_timeout(&loop), 0);
  begin_uv_timer(&timer, block_in_timer, (uint64_t)uv_backend_timeout(&loop),
                 0);
  ck_assert_int_eq(uv_idle_init(&loop, &idle), 0);
  if (_i == 1)
    ck_assert_int_eq(uv_idle_start(&idle, on_idle), 0);
  run_for(3000 + length_ms + 100);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert(is_about(stats_of_wheel().stall_sum_ms, length_ms));
  run_for(length_ms + 1100); /* where nobody tells whether the loop is quiet */
  ck_assert_uint_eq(due.fired, 1);
}
END_TEST

/* A poll's callback takes poll_ms, and then others block for 10 s: a
 * uv_timer_t, or a close callback, which starts a timer that is due before the
 * next one. */
static const struct {
  const char *name;
  uint64_t next_ms, poll_ms, uv_timer_ms;
  uint64_t stalls, sum_ms;
} late_polls[] = {
    {"due by the exact clock alone", 9000, 1, 1, 1, 10000},
    {"due behind the driver", 1000, 5000, 1100, 2, 15000},
    {"a shorter sleep", 100, 220, 0, 1, 10000},
};

static void
block_and_start(uv_handle_t *unused)
{
  (void)unused;
  block();
  test_timer_start(&own, 10, 0);
}

static void
on_late_poll(uv_async_t *handle)
{
  virtual_time_advance_ms(*(const uint64_t *)handle->data);
  if (!uv_is_active((uv_handle_t *)&timer))
    uv_close((uv_handle_t *)&timer, block_and_start);
}

/* P6. */
START_TEST(a_late_poll_hides_no_stall_that_follows)
{
  static test_timer_t next, distant;
  uint64_t poll_ms = late_polls[_i].poll_ms, end_ms;

  then = RETURN;
  length_ms = 10000;
  open_wheel(10, 512);
  test_timer_init(&own);
  run_for(10);
  begin_test_timer(&distant, 20000, 0);
  begin_test_timer(&next, late_polls[_i].next_ms, 0);
  test_timer_stop(&next); /* the driver stays armed for it */
  begin_uv_timer(&timer, block_in_timer, late_polls[_i].uv_timer_ms, 0);
  if (late_polls[_i].uv_timer_ms == 0)
    uv_timer_stop(&timer);
  ck_assert_int_eq(uv_async_init(&loop, &async, on_late_poll), 0);
  async.data = &poll_ms;
  ck_assert_int_eq(uv_async_send(&async), 0);
  end_ms = uv_now(&loop) + 16000;
  while (uv_now(&loop) < end_ms)
    (void)uv_run(&loop, UV_RUN_ONCE);
  require_in(late_polls[_i].name,
             stats_of_wheel().stalls == late_polls[_i].stalls);
  require_in(late_polls[_i].name,
             is_about(stats_of_wheel().stall_sum_ms, late_polls[_i].sum_ms));
}
END_TEST

/* ---- Programs that drive the loop by hand -------------------------------- */

static const struct {
  const char *name;
  uv_run_mode mode;
  unsigned runs; /* in each frame                   */
  bool stops;    /* a callback stops the loop first */
} drives[] = {
    {"NOWAIT", UV_RUN_NOWAIT, 1, false},
    {"NOWAIT three times", UV_RUN_NOWAIT, 3, false},
    {"NOWAIT, stopped", UV_RUN_NOWAIT, 1, true},
    {"DEFAULT, stopped", UV_RUN_DEFAULT, 1, true},
};

static void
stop_loop(uv_async_t *handle)
{
  uv_stop(handle->loop);
}

/* P6. Frames of up to a second, in which nothing is due. */
START_TEST(a_frame_between_two_runs_is_no_stall)
{
  static const uint64_t frames_ms[] = {300, 500, 700, 1000};
  static test_timer_t distant;
  unsigned frame, run;

  open_wheel(10, 512);
  begin_test_timer(&distant, 100000, 0);
  ck_assert_int_eq(uv_async_init(&loop, &async, stop_loop), 0);
  for (frame = 0; frame < 40; frame++) {
    virtual_time_advance_ms(frames_ms[frame % LENGTH(frames_ms)]);
    for (run = 0; run < drives[_i].runs; run++) {
      if (drives[_i].stops)
        ck_assert_int_eq(uv_async_send(&async), 0);
      (void)uv_run(&loop, drives[_i].mode);
    }
    require_in(drives[_i].name, stats_of_wheel().stalls == 0);
  }
}
END_TEST

/* Nothing keeps the loop alive any more. */
static void
let_loop_end(uv_async_t *handle)
{
  uv_unref((uv_handle_t *)handle);
}

static void
begin_to_listen(uv_timer_t *unused)
{
  static uv_tcp_t listener;
  struct sockaddr_in ipv4;
  const struct sockaddr *address = (struct sockaddr *)&ipv4;

  (void)unused;
  ck_assert_int_eq(uv_ip4_addr("127.0.0.1", 0, &ipv4), 0);
  ck_assert_int_eq(uv_tcp_init(&loop, &listener), 0);
  ck_assert_int_eq(uv_tcp_bind(&listener, address, 0), 0);
  ck_assert_int_eq(uv_listen((uv_stream_t *)&listener, 1, NULL), 0);
}

/* How a run ends: by uv_stop, by itself, or, with UV_RUN_ONCE, by another's
 * timer. That was due at the check, so callbacks followed. One starts a
 * watcher, too. */
static const uv_async_cb ends[] = {stop_loop, let_loop_end, NULL, NULL};

/* P6. The run returns, and the program does something else for 50 s. */
START_TEST(a_program_may_sleep_after_a_run_has_ended)
{
  static test_timer_t distant;

  open_wheel(10, 512);
  uvwheel_unref(&wheel);
  begin_test_timer(&distant, 100000, 0);
  run_for(10);
  ck_assert_int_eq(uv_async_init(&loop, &async, ends[_i]), 0);
  if (ends[_i] != NULL)
    ck_assert_int_eq(uv_async_send(&async), 0);
  else
    begin_uv_timer(&timer, _i == 2 ? ignore_uv_timer : begin_to_listen, 100, 0);
  (void)uv_run(&loop, ends[_i] != NULL ? UV_RUN_DEFAULT : UV_RUN_ONCE);
  virtual_time_advance_ms(50000);
  run_for(0);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
}
END_TEST

/* What became of the timer before the sleep: it was unused; stopped, at once or
 * after a callback has blocked the loop; or it has fired, and a close follows.
 * Late: it is stopped after the sleep. Or another timer is active. */
enum before { UNUSED, STOPPED, BLOCKED, FIRED, CLOSES, LATE, OTHER, BEFORES };

static const char *const befores[BEFORES] = {
    "unused", "stopped", "blocked", "fired", "closes", "late", "other"};

static void
close_another(test_timer_t *fired)
{
  fired->then = NULL;
  uv_close((uv_handle_t *)&check, NULL);
}

static void
start_in_prepare(uv_prepare_t *handle)
{
  if (handle->data != NULL)
    test_timer_start(&own, 5000, 0);
  handle->data = NULL;
}

/* P6. By a time of the loop from before the sleep: between the runs, and with
 * libuv from 1.45 on in a prepare callback of the second one, too. */
START_TEST(a_start_after_a_sleep_between_two_runs_makes_no_stall_of_it)
{
  static test_timer_t distant;
  enum before before = (enum before)(_i / 2);
  unsigned fired = before == FIRED || before == CLOSES;

  then = RETURN;
  length_ms = 10000;
  open_wheel(10, 512);
  test_timer_init(&own);
  begin_prepare(&prepare, start_in_prepare);
  ck_assert_int_eq(uv_check_init(&loop, &check), 0);
  run_for(10);
  if (before == OTHER)
    begin_test_timer(&distant, 100000, 0);
  else if (before != UNUSED)
    test_timer_start(&own, before == BLOCKED || before == LATE ? 70000 : 100,
                     0);
  if (before == BLOCKED) {
    uv_close((uv_handle_t *)&check, block_in_close);
    (void)uv_run(&loop, UV_RUN_ONCE);
  }
  if (before == STOPPED || before == BLOCKED)
    test_timer_stop(&own);
  own.then = before == CLOSES ? close_another : NULL;
  while (own.fired < fired)
    (void)uv_run(&loop, UV_RUN_ONCE);
  virtual_time_advance_ms(50000);
  if (before == LATE)
    test_timer_stop(&own);
  prepare.data = _i % 2 ? &own : NULL;
  if (prepare.data == NULL)
    test_timer_start(&own, 5000, 0);
  (void)uv_run(&loop, UV_RUN_NOWAIT);
  run_for(6000);
  require_in(befores[before], own.fired == fired + 1);
  require_in(befores[before], stats_of_wheel().stalls == 0);
}
END_TEST

/* P6. By a time of the loop from before the sleep. */
START_TEST(a_start_hides_no_sleep_that_was_too_long)
{
  static test_timer_t distant, late;

  open_wheel(10, 512);
  begin_test_timer(&distant, 20000, 0);
  run_for(10);
  virtual_time_advance_ms(50000);
  begin_test_timer(&late, 5000, 0);
  run_for(10);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_ge(stats_of_wheel().stall_sum_ms, 50000 - 20000);
}
END_TEST

/* ---- What the allowance shows -------------------------------------------- */

/* P6. A server that saves for 4 s each minute is forgiven for 49 minutes. The
 * allowance tells it before, and a figure after. */
START_TEST(the_allowance_tells_when_stalls_will_not_be_forgiven)
{
  static test_timer_t distant;
  uint64_t allowed_ms = ALLOWANCE_MS, before_ms;
  uint64_t minutes = 0;

  ck_assert_int_eq(uv_timer_init(&loop, &timer), 0);
  open_wheel(100, 512);
  begin_test_timer(&distant, 100000000, 0);
  length_ms = 4000;
  then = RETURN;
  ck_assert_uint_eq(stats_of_wheel().allowance_ms, ALLOWANCE_MS);
  while (stats_of_wheel().stalls_unforgiven == 0) {
    before_ms = allowed_ms;
    ck_assert_int_eq(uv_timer_start(&timer, block_in_timer, 1000, 0), 0);
    run_for(60000 - length_ms); /* the poll after it sleeps by that longer */
    ck_assert_uint_eq(stats_of_wheel().stalls, ++minutes);
    allowed_ms = stats_of_wheel().allowance_ms;
    ck_assert(allowed_ms < before_ms || allowed_ms < 60000 / INFLOW);
  }
  ck_assert_uint_eq(minutes, 50);
  ck_assert(is_about(stats_of_wheel().set_back_ms, 49 * 5000));
  run_for(UINT64_C(2) * INFLOW * ALLOWANCE_MS);
  ck_assert_uint_eq(stats_of_wheel().allowance_ms, ALLOWANCE_MS);
  rewind_clock();
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      {each_callback_that_blocks_the_loop_is_a_stall, 0, 4 * (WAYS + 2 * POLL)},
      {a_uv_timer_that_is_due_with_the_driver_is_a_stall_if_it_blocks, 0, 2},
      EACH(a_late_poll_hides_no_stall_that_follows, late_polls),
      EACH(a_frame_between_two_runs_is_no_stall, drives),
      EACH(a_program_may_sleep_after_a_run_has_ended, ends),
      {a_start_after_a_sleep_between_two_runs_makes_no_stall_of_it, 0,
       2 * BEFORES},
      TEST(a_start_hides_no_sleep_that_was_too_long),
      TEST(the_allowance_tells_when_stalls_will_not_be_forgiven),
  };

  return run_loop_tests("blocked", tests, LENGTH(tests));
}
