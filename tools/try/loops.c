/* SPDX-License-Identifier: MIT */

/* A record of each loop that has timers, and the wheel that is added to the
 * loop. The wheel does not keep the loop alive, uv_walk does not meet it, and
 * it does not hold up uv_loop_close. With uv nothing is added. */

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"
#include "try.h"

_Atomic(record_t *) records;

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

record_t *find_record(const uv_loop_t *loop) {
  record_t *record = atomic_load(&records);

  while (record != NULL && atomic_load(&record->loop) != loop)
    record = record->next;
  return record;
}

/* ---- The cost of the wheel's turns -------------------------------------- */

static uint64_t examined_by(const record_t *record) {
  uvwheel_stats_t stats;

  uvwheel_get_stats(&record->wheel, &stats);
  return stats.examined;
}

/* The record whose wheel has a handle. */
#define RECORD_OF(handle, member)                                              \
  CONTAINER_OF(CONTAINER_OF(handle, uvwheel_state_t, member)->wheel, record_t, \
               wheel)

static void begin_turn(record_t *record) {
  record->turn = begin_call(&record->tally, TURN);
  record->callbacks_ns = 0;
  record->examined = examined_by(record);
  record->turn.began_ns = now_ns();
}

static void finish_turn(record_t *record) {
  end_turn(&record->turn, now_ns(), record->callbacks_ns,
           examined_by(record) - record->examined);
}

static void on_check(uv_check_t *check) {
  record_t *record = RECORD_OF(check, listen.check);

  begin_turn(record);
  uvwheel__on_check(check);
  finish_turn(record);
}

static void on_driver(uv_timer_t *driver) {
  record_t *record = RECORD_OF(driver, wake.driver);

  begin_turn(record);
  uvwheel__on_driver(driver);
  finish_turn(record);
}

int timed_uv_check_start(uv_check_t *check, uv_check_cb cb) {
  (void)cb;
  return uv_check_start(check, on_check);
}

int timed_uv_timer_start(uv_timer_t *driver, uv_timer_cb cb, uint64_t timeout,
                         uint64_t repeat) {
  (void)cb;
  return real_uv_timer_start(driver, on_driver, timeout, repeat);
}

/* ---- What is added to a loop -------------------------------------------- */

/* Without memory for a wheel libuv serves the timers of this loop. */
static void add_wheel(record_t *record, uv_loop_t *loop) {
  uvwheel_options_t options = {.tick_ms = settings.tick_ms,
                               .flags = UVWHEEL_FIFO};

  record->is_tried = true;
  if (uvwheel_init(loop, &record->wheel, &options) != 0)
    return;
  uvwheel_unref(&record->wheel);
  record->has_wheel = true;
}

static record_t *take_record(uv_loop_t *loop) {
  record_t *record = find_record(NULL);

  if (record == NULL) {
    record = calloc(1, sizeof *record);
    if (record == NULL)
      return NULL;
    record->next = atomic_load(&records);
    atomic_store(&records, record);
  }
  record->tally.loops++;
  atomic_store(&record->loop, loop);
  return record;
}

record_t *make_record(uv_loop_t *loop) {
  record_t *record = find_record(loop);

  if (record == NULL) {
    begin_reports();
    (void)pthread_mutex_lock(&making);
    record = take_record(loop);
    (void)pthread_mutex_unlock(&making);
  }
  if (record != NULL && settings.with_wheel && !record->is_tried)
    add_wheel(record, loop);
  return record;
}

bool is_own_handle(const record_t *record, const uv_handle_t *handle) {
  const uvwheel_state_t *state = record->wheel.state;

  return (uintptr_t)handle - (uintptr_t)state < sizeof *state;
}

/* Has the program a handle in the loop? As libuv's own uv_loop_close this looks
 * no further than the first: some programs have freed those that follow. A
 * queue of libuv is two pointers, the next and the previous one; handles that
 * are in the loop itself are libuv's. */
static bool has_foreign_handle(record_t *record, uv_loop_t *loop) {
  void **head = (void **)(void *)&loop->handle_queue, **place;

  for (place = head[0]; place != head; place = place[0]) {
    const char *handle = (char *)place - offsetof(uv_handle_t, handle_queue);
    if (!is_own_handle(record, (const uv_handle_t *)(const void *)handle) &&
        (uintptr_t)handle - (uintptr_t)loop >= sizeof *loop)
      return true;
  }
  return false;
}

/* If only the wheel is left in the loop, uv_run calls nothing of the program's.
 */
void close_own_handles(record_t *record) {
  uv_loop_t *loop = atomic_load(&record->loop);

  if (!record->has_wheel || has_foreign_handle(record, loop) ||
      uv_loop_alive(loop))
    return;
  record->has_wheel = false;
  uvwheel_close(&record->wheel, NULL);
  while (uv_run(loop, UV_RUN_NOWAIT) != 0)
    continue;
}

void release_record(record_t *record, bool closed) {
  static uv_loop_t nowhere;

  record->has_wheel = record->is_tried = false;
  record->tally.open = 0;
  atomic_store(&record->loop, closed ? NULL : &nowhere);
}
