/* SPDX-License-Identifier: MIT */

/* The functions that the program calls instead of libuv's.
 *
 * A program may read the fields of its uv_timer_t, so each holds what libuv
 * would have written. This library keeps its own data in uv_handle_t.u, which
 * libuv leaves alone in timers.
 *
 * With a wheel that data points to an uvwheel_timer_t, which serves the timer,
 * and this file writes the fields as libuv does: the flags, the loop's count of
 * active handles, timer_cb, timeout, repeat and start_id. So uv_is_active,
 * uv_ref, uv_loop_alive and uv_timer_get_due_in work as ever. The wheel itself
 * does not keep the loop alive.
 *
 * With uv a callback has to be seen as well: timer_cb then holds on_uv_timer.
 *
 * libuv calls some of these functions, too: all of them for the timers of its
 * uv_fs_poll_t, uv_timer_stop and uv_timer_again for a timer that is due, and
 * each other. */

#include <stdlib.h>
#include <string.h>

#include "try.h"

/* ---- What a handle holds ------------------------------------------------ */

typedef struct own_s {
  record_t *record; /* of the loop; NULL: the timer is libuv's alone */
  union {
    uvwheel_timer_t *inner; /* if a wheel serves it                     */
    uv_timer_cb cb;         /* else: the program's, for on_uv_timer     */
  } by;
  uint64_t due_ns;      /* 0: it is not known                           */
  bool is_served : 1;   /* by the wheel                                 */
  bool is_stopped : 1;  /* by the program, while it was active          */
  bool is_expiring : 1; /* libuv stopped it to call it back             */
} own_t;

_Static_assert(sizeof(own_t) <= sizeof((uv_timer_t *)NULL)->u,
               "uv_handle_t.u has no room");

static own_t *own_of(const uv_timer_t *handle) {
  return (own_t *)(uintptr_t)&handle->u;
}

static bool is_active(const uv_timer_t *handle) {
  return handle->flags & UV__HANDLE_ACTIVE;
}

/* Does libuv serve it, and has called back here while it did? Or is it none
 * that uv_timer_init below has seen, or closed? */
static bool is_for_libuv(const uv_timer_t *handle) {
  const record_t *record = own_of(handle)->record;

  return record == NULL || record->is_in_libuv;
}

/* ---- Active or not ------------------------------------------------------ */

/* Writes what libuv would have, had it served the timer. To be called after
 * whatever may have started or stopped it. */
static void keep_books(uv_timer_t *handle) {
  const own_t *own = own_of(handle);
  bool active = own->is_served && uvwheel_timer_is_active(own->by.inner);

  if (active) {
    handle->timeout =
        uv_now(handle->loop) + uvwheel_timer_get_due_in(own->by.inner);
    handle->start_id = handle->loop->timer_counter++;
  }
  if (!own->is_served || active == is_active(handle))
    return;
  handle->flags ^= UV__HANDLE_ACTIVE;
  if (handle->flags & UV__HANDLE_REF)
    handle->loop->active_handles += active ? 1 : (unsigned)-1;
}

/* ---- Callbacks ---------------------------------------------------------- */

/* Longer ones, in ms, may not fit into ns. */
#define LONGEST_TIMEOUT UINT64_C(1000000000)

/* The timer is due `timeout` after this moment, by a stopwatch. */
static void expect_firing(own_t *own, uint64_t moment_ns, uint64_t timeout) {
  own->due_ns = timeout < LONGEST_TIMEOUT ? moment_ns + timeout * 1000000 : 0;
}

static void fire(uv_timer_t *handle, uv_timer_cb cb) {
  own_t *own = own_of(handle);
  record_t *record = own->record;
  uint64_t now = now_ns();

  record->tally.fired++;
  if (own->due_ns != 0)
    note_late(&record->tally, own->due_ns, now);
  expect_firing(own, now, handle->repeat);
  record->is_in_callback = true;
  cb(handle);
  record->is_in_callback = false;
}

static void on_uv_timer(uv_timer_t *handle) {
  own_t *own = own_of(handle);

  own->is_expiring = false;
  fire(handle, own->by.cb);
}

/* The time that the callback takes is not the wheel's. */
static void on_wheel_timer(uvwheel_timer_t *inner) {
  uv_timer_t *handle = inner->data;
  record_t *record = own_of(handle)->record;
  uint64_t began_ns = now_ns();

  keep_books(handle);
  fire(handle, handle->timer_cb);
  record->callbacks_ns += now_ns() - began_ns + clock_ns();
}

/* ---- Timers ------------------------------------------------------------- */

UV_EXTERN int uv_timer_init(uv_loop_t *loop, uv_timer_t *handle) {
  record_t *record = make_record(loop);
  own_t *own = own_of(handle);
  stopwatch_t watch;

  memset(&handle->u, 0, sizeof handle->u);
  if (record == NULL)
    return real_uv_timer_init(loop, handle);
  own->record = record;
  if (record->has_wheel)
    own->by.inner = calloc(1, sizeof *own->by.inner);
  own->is_served = own->by.inner != NULL;
  if (own->is_served)
    (void)real_uv_timer_init(loop, handle);
  watch = begin_call(&record->tally, INIT);
  (void)(own->is_served ? uvwheel_timer_init(&record->wheel, own->by.inner)
                        : real_uv_timer_init(loop, handle));
  end_call(&watch);
  if (own->is_served)
    own->by.inner->data = handle;
  if (++record->tally.open > record->tally.open_most)
    record->tally.open_most = record->tally.open;
  return 0;
}

/* A refresh could take the place of a start of a timer that is active, or was
 * until the program stopped it. */
static void note_start(const uv_timer_t *handle) {
  own_t *own = own_of(handle);

  own->record->tally.restarted += is_active(handle) || own->is_stopped;
  own->is_stopped = false;
}

UV_EXTERN int uv_timer_start(uv_timer_t *handle, uv_timer_cb cb,
                             uint64_t timeout, uint64_t repeat) {
  own_t *own = own_of(handle);
  record_t *record = own->record;
  stopwatch_t watch;

  if (is_for_libuv(handle) || cb == NULL)
    return real_uv_timer_start(handle, cb, timeout, repeat);
  note_start(handle);
  own->is_expiring = false;
  if (!own->is_served && cb != on_uv_timer)
    own->by.cb = cb;
  watch = begin_call(&record->tally, START);
  record->is_in_libuv = true;
  if (own->is_served)
    (void)uvwheel_timer_start(own->by.inner, on_wheel_timer, timeout, repeat);
  else
    (void)real_uv_timer_start(handle, on_uv_timer, timeout, repeat);
  record->is_in_libuv = false;
  end_call(&watch);
  if (own->is_served) {
    handle->timer_cb = cb;
    handle->repeat = repeat;
  }
  expect_firing(own, watch.began_ns, timeout);
  keep_books(handle);
  return 0;
}

/* Is it libuv that stops the timer, to call it back? */
static bool is_expiry(const uv_timer_t *handle) {
  const own_t *own = own_of(handle);

  return !own->is_served && is_active(handle) &&
         handle->timeout <= uv_now(handle->loop) &&
         !own->record->is_in_callback;
}

UV_EXTERN int uv_timer_stop(uv_timer_t *handle) {
  own_t *own = own_of(handle);
  record_t *record = own->record;
  stopwatch_t watch;
  bool expires;

  if (is_for_libuv(handle))
    return real_uv_timer_stop(handle);
  expires = is_expiry(handle);
  own->is_stopped |= is_active(handle) && !expires;
  watch = begin_call(&record->tally, expires ? EXPIRE_STOP : STOP);
  record->is_in_libuv = true;
  (void)(own->is_served ? uvwheel_timer_stop(own->by.inner)
                        : real_uv_timer_stop(handle));
  record->is_in_libuv = false;
  end_call(&watch);
  own->is_expiring = expires;
  keep_books(handle);
  return 0;
}

UV_EXTERN int uv_timer_again(uv_timer_t *handle) {
  own_t *own = own_of(handle);
  record_t *record = own->record;
  stopwatch_t watch;
  int status;

  if (is_for_libuv(handle))
    return real_uv_timer_again(handle);
  if (!own->is_expiring && handle->repeat != 0)
    note_start(handle);
  watch = begin_call(&record->tally, own->is_expiring ? EXPIRE_AGAIN : AGAIN);
  record->is_in_libuv = true;
  status = own->is_served ? uvwheel_timer_again(own->by.inner)
                          : real_uv_timer_again(handle);
  record->is_in_libuv = false;
  end_call(&watch);
  if (!own->is_expiring && status == 0 && handle->repeat != 0)
    expect_firing(own, watch.began_ns, handle->repeat);
  keep_books(handle);
  return status;
}

UV_EXTERN void uv_timer_set_repeat(uv_timer_t *handle, uint64_t repeat) {
  const own_t *own = own_of(handle);

  if (own->record != NULL && own->is_served)
    uvwheel_timer_set_repeat(own->by.inner, repeat);
  real_uv_timer_set_repeat(handle, repeat);
}

/* ---- Handles and loops -------------------------------------------------- */

static void close_timer(uv_timer_t *handle, uv_close_cb cb) {
  own_t *own = own_of(handle);
  record_t *record = own->record;
  stopwatch_t watch;

  watch = begin_call(&record->tally, CLOSE);
  if (own->is_served) {
    uvwheel_timer_close(own->by.inner);
    end_call(&watch);
    keep_books(handle);
    free(own->by.inner);
  }
  record->is_in_libuv = true;
  real_uv_close((uv_handle_t *)handle, cb);
  record->is_in_libuv = false;
  if (!own->is_served)
    end_call(&watch);
  record->tally.open--;
  own->record = NULL;
}

UV_EXTERN void uv_close(uv_handle_t *handle, uv_close_cb cb) {
  if (handle->type == UV_TIMER && own_of((uv_timer_t *)handle)->record != NULL)
    close_timer((uv_timer_t *)handle, cb);
  else
    real_uv_close(handle, cb);
}

typedef struct walk_s {
  const record_t *record;
  uv_walk_cb cb;
  void *arg;
} walk_t;

static void visit(uv_handle_t *handle, void *arg) {
  const walk_t *walk = arg;

  if (!is_own_handle(walk->record, handle))
    walk->cb(handle, walk->arg);
}

UV_EXTERN void uv_walk(uv_loop_t *loop, uv_walk_cb cb, void *arg) {
  walk_t walk = {find_record(loop), cb, arg};

  real_uv_walk(loop, walk.record != NULL ? visit : cb,
               walk.record != NULL ? &walk : arg);
}

/* A program may use the memory of a loop that it never closed. */
UV_EXTERN int uv_loop_init(uv_loop_t *loop) {
  record_t *record = find_record(loop);

  if (record != NULL)
    release_record(record, false);
  return real_uv_loop_init(loop);
}

UV_EXTERN int uv_loop_close(uv_loop_t *loop) {
  record_t *record = find_record(loop);
  int status;

  if (record != NULL)
    close_own_handles(record);
  status = real_uv_loop_close(loop);
  if (record != NULL && status == 0)
    release_record(record, true);
  return status;
}
