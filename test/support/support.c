/* SPDX-License-Identifier: MIT */

#include "support.h"
#include "invariants.h"

uv_loop_t loop;
uvwheel_t wheel;
unsigned wheels_closed;
unsigned fired_in_all;

static uv_timer_t stopper;
static bool has_wheel;
static uint64_t ms_per_tick; /* of the wheel */

void rewind_clock(void) {
  virtual_time_set_ns(START_MS * 1000000);
}

static void setup(void) {
  rewind_clock();
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(uv_timer_init(&loop, &stopper), 0);
  ck_assert_uint_eq(uv_now(&loop), START_MS);
  has_wheel = false;
  wheels_closed = 0;
  fired_in_all = 0;
}

static void close_handle_of_test(uv_handle_t *handle, void *unused) {
  (void)unused;
  if (!uvwheel_owns_handle(handle) && !uv_is_closing(handle))
    uv_close(handle, NULL);
}

/* A case that has failed may leave a wheel whose timers repeat for ever. (What
 * check's assertions find here it runs again without forks: it would go on.) */
static void teardown(void) {
  int iterations = 0;

  if (has_wheel) {
    verify_wheel();
    uvwheel_close(&wheel, NULL);
  }
  uv_walk(&loop, close_handle_of_test, NULL);
  while (uv_run(&loop, UV_RUN_ONCE) != 0)
    require(++iterations < 10000);
  require(uv_loop_close(&loop) == 0);
}

int run_loop_tests(const char *name, const loop_test_t *tests, size_t count) {
  return run_tests(name, setup, teardown, tests, count);
}

void set_clock_ms(uint64_t ms) {
  virtual_time_set_ns(ms * 1000000);
  uv_update_time(&loop);
}

void advance_loop_ms(uint64_t ms) {
  virtual_time_advance_ms(ms);
  uv_update_time(&loop);
}

void begin_uv_timer(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout,
                    uint64_t repeat) {
  ck_assert_int_eq(uv_timer_init(&loop, timer), 0);
  ck_assert_int_eq(uv_timer_start(timer, cb, timeout, repeat), 0);
}

void ignore_uv_timer(uv_timer_t *timer) {
  (void)timer;
}

void begin_prepare(uv_prepare_t *prepare, uv_prepare_cb cb) {
  ck_assert_int_eq(uv_prepare_init(&loop, prepare), 0);
  ck_assert_int_eq(uv_prepare_start(prepare, cb), 0);
}

void begin_timer(uvwheel_timer_t *timer, uvwheel_timer_cb cb, uint64_t timeout,
                 uint64_t repeat) {
  require(uvwheel_timer_init(&wheel, timer) == 0);
  require(uvwheel_timer_start(timer, cb, timeout, repeat) == 0);
}

void count_timer(uvwheel_timer_t *timer) {
  ++*(unsigned *)timer->data;
}

void ignore_post(uvwheel_post_t *post, int status) {
  (void)post, (void)status;
}

uvwheel_timer_t *begin_timers(unsigned count, uvwheel_timer_cb cb,
                              uint64_t timeout, uint64_t step_ms, void *data) {
  uvwheel_timer_t *timers = calloc(count, sizeof *timers);
  unsigned i;

  ck_assert_ptr_nonnull(timers);
  for (i = 0; i < count; i++) {
    require(uvwheel_timer_init(&wheel, &timers[i]) == 0);
    timers[i].data = data;
    require(uvwheel_timer_start(&timers[i], cb, timeout + i * step_ms, 0) == 0);
  }
  return timers;
}

void open_wheel(uint64_t tick_ms, uint32_t slots) {
  uvwheel_options_t options = {.tick_ms = tick_ms, .slots = slots};

  open_wheel_with(&options);
}

void open_wheel_without_stalls(uint64_t tick_ms, uint32_t slots) {
  uvwheel_options_t options = {
      .tick_ms = tick_ms, .slots = slots, .stall_ms = UINT32_MAX};

  open_wheel_with(&options);
}

void open_wheel_with(const uvwheel_options_t *options) {
  uvwheel_options_t chosen;

  memset(&wheel, 0xA5, sizeof wheel);
  ck_assert_int_eq(uvwheel_init(&loop, &wheel, options), 0);
  ck_assert_int_eq(uvwheel_get_options(&wheel, &chosen), 0);
  ms_per_tick = chosen.tick_ms;
  has_wheel = true;
  verify_wheel();
}

void expect_init_fails(uv_loop_t *on, const uvwheel_options_t *options,
                       int error) {
  void *data;

  memset(&wheel, 0xA5, sizeof wheel);
  data = wheel.data;
  ck_assert_int_eq(uvwheel_init(on, &wheel, options), error);
  ck_assert_ptr_eq(wheel.data, data);
  ck_assert_ptr_null(wheel.state);
  ck_assert_uint_eq(handle_count(), 0);
}

void forget_wheel(void) {
  memset(&wheel, 0xA5, sizeof wheel);
  has_wheel = false;
}

void close_and_forget_wheel(void) {
  verify_wheel();
  uvwheel_close(&wheel, NULL);
  has_wheel = false;
  run_for(1);
  memset(&wheel, 0xA5, sizeof wheel);
}

void verify_wheel(void) {
  ck_assert_int_eq(broken_wheel_invariants(&wheel, stderr), 0);
}

uint64_t fires_at(uint64_t due_ms) {
  return tick_ms_after(ms_per_tick, due_ms);
}

static void on_stopper(uv_timer_t *timer) {
  uv_stop(timer->loop);
}

/* A loop that nothing keeps alive does not poll. */
static void run_nowait(void) {
  (void)uv_timer_start(&stopper, on_stopper, 1 << 30, 0);
  (void)uv_run(&loop, UV_RUN_NOWAIT);
  (void)uv_timer_stop(&stopper);
}

/* libuv runs its timers before it polls, since 1.45 after that. */
void run_turn(void) {
  uint64_t turns = stats_of_wheel().turns;
  unsigned i;

  for (i = 0; i < 3 && stats_of_wheel().turns == turns; i++)
    run_nowait();
}

void run_for(uint64_t ms) {
  uv_update_time(&loop);
  ck_assert_int_eq(uv_timer_start(&stopper, on_stopper, ms, 0), 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert(!uv_is_active((uv_handle_t *)&stopper));
  if (uv_version() >= 0x012d00) /* the poll after that timer */
    run_nowait();
  if (has_wheel)
    verify_wheel();
}

/* A turn takes up to two iterations after the one in which the driver is
 * called. (On Windows a poll that does not wait leaves the loop's time as it
 * was.) */
void come_late(uint64_t due_ms, uint64_t late_ms) {
  unsigned i;

  run_for(fires_at(due_ms) - 1 - uv_now(&loop));
  virtual_time_advance_ms(1 + late_ms);
  for (i = 0; i < 4; i++) {
    uv_update_time(&loop);
    uv_run(&loop, UV_RUN_NOWAIT);
  }
}

static void close_handle(uv_handle_t *handle, void *count) {
  if (handle == (uv_handle_t *)&stopper)
    return;
  ++*(unsigned *)count;
  if (!uv_is_closing(handle))
    uv_close(handle, NULL);
}

unsigned close_all_handles(void) {
  unsigned count = 0;

  uv_walk(&loop, close_handle, &count);
  return count;
}

typedef struct handles_s {
  uv_handle_t **list;
  unsigned room;
  unsigned count;
} handles_t;

static void list_handle(uv_handle_t *handle, void *arg) {
  handles_t *handles = arg;

  if (handle == (uv_handle_t *)&stopper)
    return;
  if (handles->count < handles->room)
    handles->list[handles->count] = handle;
  handles->count++;
}

unsigned list_handles(uv_handle_t **list, unsigned room) {
  handles_t handles = {list, room, 0};

  uv_walk(&loop, list_handle, &handles);
  return handles.count;
}

unsigned handle_count(void) {
  return list_handles(NULL, 0);
}

void on_wheel_closed(uvwheel_t *closed) {
  ck_assert_ptr_eq(closed, &wheel);
  wheels_closed++;
}

uvwheel_stats_t stats_of_wheel(void) {
  uvwheel_stats_t stats;

  memset(&stats, 0xA5, sizeof stats);
  uvwheel_get_stats(&wheel, &stats);
  return stats;
}

void test_timer_init(test_timer_t *timer) {
  memset(timer, 0, sizeof *timer);
  memset(&timer->base, 0xA5, sizeof timer->base);
  ck_assert_int_eq(uvwheel_timer_init(&wheel, &timer->base), 0);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer->base), 0);
}

void test_timer_init_all(test_timer_t *timers, size_t count) {
  size_t i;

  for (i = 0; i < count; i++)
    test_timer_init(&timers[i]);
}

static void expect_due_in(test_timer_t *timer, uint64_t delay_ms) {
  uint64_t now_ms = uv_now(&loop);

  timer->due_ms = add_saturated(now_ms, delay_ms);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer->base), 1);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer->base),
                    timer->due_ms - now_ms);
}

void test_timer_start(test_timer_t *timer, uint64_t timeout, uint64_t repeat) {
  uint64_t count = uvwheel_count(&wheel);
  int active = uvwheel_timer_is_active(&timer->base);

  ck_assert_int_eq(
      uvwheel_timer_start(&timer->base, on_test_timer, timeout, repeat), 0);
  ck_assert_uint_eq(uvwheel_count(&wheel), count + (active ? 0 : 1));
  ck_assert_uint_eq(uvwheel_timer_get_repeat(&timer->base), repeat);
  expect_due_in(timer, timeout);
}

void test_timer_expect(test_timer_t *timer, uint64_t timeout) {
  ck_assert_int_eq(uvwheel_timer_expect(&timer->base, on_test_timer, timeout),
                   0);
  ck_assert_uint_eq(uvwheel_timer_get_repeat(&timer->base), 0);
  expect_due_in(timer, timeout);
}

void begin_test_timer(test_timer_t *timer, uint64_t timeout, uint64_t repeat) {
  test_timer_init(timer);
  test_timer_start(timer, timeout, repeat);
}

void test_timer_refresh(test_timer_t *timer) {
  uint64_t repeat = uvwheel_timer_get_repeat(&timer->base);

  ck_assert_int_eq(uvwheel_timer_refresh(&timer->base), 0);
  expect_due_in(timer,
                repeat != 0 ? repeat : uvwheel_timer_get_due_in(&timer->base));
}

void begin_heard_timer(test_timer_t *timer, uint64_t timeout, uint64_t repeat) {
  begin_test_timer(timer, timeout, repeat);
  if (repeat != 0)
    test_timer_refresh(timer);
  else
    test_timer_expect(timer, timeout);
}

void test_timer_again(test_timer_t *timer) {
  ck_assert_int_eq(uvwheel_timer_again(&timer->base), 0);
  expect_due_in(timer, uvwheel_timer_get_repeat(&timer->base));
}

void test_timer_stop(test_timer_t *timer) {
  uint64_t count = uvwheel_count(&wheel);
  int active = uvwheel_timer_is_active(&timer->base);

  ck_assert_int_eq(uvwheel_timer_stop(&timer->base), 0);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer->base), 0);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer->base), 0);
  ck_assert_uint_eq(uvwheel_count(&wheel), count - (active ? 1 : 0));
}

void on_test_timer(uvwheel_timer_t *base) {
  test_timer_t *timer = (test_timer_t *)base;
  uint64_t repeat = uvwheel_timer_get_repeat(base);

  fired_in_all++;
  timer->fired++;
  timer->fired_ms = uv_now(&loop);
  if (!timer->may_be_early)
    ck_assert_uint_ge(timer->fired_ms, fires_at(timer->due_ms));
  ck_assert_int_eq(uvwheel_timer_is_active(base), repeat != 0);
  if (repeat != 0)
    timer->due_ms = base->entry.due_ms;
  else
    ck_assert_uint_eq(uvwheel_timer_get_due_in(base), 0);
  if (timer->then != NULL)
    timer->then(timer);
}

void expect_punctual(test_timer_t *timer, uint64_t timeout) {
  unsigned fired = timer->fired;
  uint64_t at_ms;

  uv_update_time(&loop);
  at_ms = fires_at(uv_now(&loop) + timeout);
  test_timer_start(timer, timeout, 0);
  run_for(at_ms - uv_now(&loop) - 1);
  ck_assert_uint_eq(timer->fired, fired);
  run_for(1);
  ck_assert_uint_eq(timer->fired, fired + 1);
  ck_assert_uint_eq(timer->fired_ms, at_ms);
}
