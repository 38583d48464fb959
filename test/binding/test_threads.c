/* SPDX-License-Identifier: MIT */

/* Wheels on several loops in several threads, in real time: above all for the
 * thread sanitizer. check belongs to one thread, so each thread counts its
 * errors, and the test looks at the counts. */

#include <check.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "invariants.h"
#include "suite.h"
#include "uvwheel.h"

#define THREADS 4
#define WHEELS 2 /* for each thread, used in turn */
#define TIMERS 300
#define CALLBACKS 5

typedef struct worker_s worker_t;

typedef struct item_s {
  uvwheel_timer_t timer;
  worker_t *worker;
  uint64_t timeout_ms;
  uint64_t started_ns;
  unsigned left; /* callbacks to come */
} item_t;

struct worker_s {
  uv_thread_t thread;
  uv_loop_t loop;
  uvwheel_t wheels[WHEELS];
  item_t items[TIMERS];
  uint64_t random;
  unsigned errors; /* what failed, or was early */
  unsigned fired;
  unsigned closed;
};

static worker_t workers[THREADS];

static void expect(worker_t *worker, int holds) {
  worker->errors += !holds;
}

static uint64_t random_below(worker_t *worker, uint64_t limit) {
  worker->random = worker->random * UINT64_C(6364136223846793005) + 1;
  return (worker->random >> 33) % limit;
}

static void on_item(uvwheel_timer_t *timer);

static void start_item(item_t *item) {
  worker_t *worker = item->worker;

  item->timeout_ms = random_below(worker, 20);
  item->started_ns = uv_hrtime(); /* the stopwatch begins first */
  uv_update_time(&worker->loop);
  expect(worker,
         uvwheel_timer_start(&item->timer, on_item, item->timeout_ms, 0) == 0);
}

static void on_item(uvwheel_timer_t *timer) {
  item_t *item = timer->data;
  worker_t *worker = item->worker;
  item_t *other = &worker->items[random_below(worker, TIMERS)];

  expect(worker, uv_hrtime() - item->started_ns >= item->timeout_ms * 1000000);
  worker->fired++;
  if (--item->left > 0)
    start_item(item);
  if (uvwheel_timer_is_active(&other->timer)) {
    expect(worker, uvwheel_timer_stop(&other->timer) == 0);
    start_item(other);
    expect(worker, uvwheel_timer_refresh(&other->timer) == 0);
  }
}

static void on_closed(uvwheel_t *wheel) {
  ++*(unsigned *)wheel->data;
}

static void init_worker(worker_t *worker) {
  const uvwheel_options_t options = {.tick_ms = 1, .slots = 8};
  size_t i;

  worker->errors = 0;
  worker->fired = 0;
  worker->closed = 0;
  worker->random = (uint64_t)(worker - workers);
  expect(worker, uv_loop_init(&worker->loop) == 0);
  for (i = 0; i < WHEELS; i++) {
    uvwheel_t *wheel = &worker->wheels[i];
    expect(worker, uvwheel_init(&worker->loop, wheel, &options) == 0);
    wheel->data = &worker->closed;
  }
  for (i = 0; i < TIMERS; i++) {
    item_t *item = &worker->items[i];
    expect(worker,
           uvwheel_timer_init(&worker->wheels[i % WHEELS], &item->timer) == 0);
    item->timer.data = item;
    item->worker = worker;
    item->left = CALLBACKS;
  }
}

static void run_worker(void *arg) {
  worker_t *worker = arg;
  size_t i;

  for (i = 0; i < TIMERS; i++)
    start_item(&worker->items[i]);
  expect(worker, uv_run(&worker->loop, UV_RUN_DEFAULT) == 0);
  expect(worker, worker->fired == TIMERS * CALLBACKS);
  for (i = 0; i < WHEELS; i++) {
    expect(worker, uvwheel_count(&worker->wheels[i]) == 0);
    expect(worker, broken_wheel_invariants(&worker->wheels[i], stderr) == 0);
    uvwheel_close(&worker->wheels[i], on_closed);
  }
  expect(worker, uv_run(&worker->loop, UV_RUN_DEFAULT) == 0);
  expect(worker, worker->closed == WHEELS);
  expect(worker, uv_loop_close(&worker->loop) == 0);
}

START_TEST(threads_run_wheels_that_the_main_thread_made) {
  worker_t *worker;

  for (worker = workers; worker < workers + THREADS; worker++) {
    init_worker(worker);
    ck_assert_int_eq(uv_thread_create(&worker->thread, run_worker, worker), 0);
  }
  for (worker = workers; worker < workers + THREADS; worker++) {
    ck_assert_int_eq(uv_thread_join(&worker->thread), 0);
    ck_assert_uint_eq(worker->errors, 0);
  }
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(threads_run_wheels_that_the_main_thread_made),
  };

  return run_tests("threads", NULL, NULL, tests, LENGTH(tests));
}
