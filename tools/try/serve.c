/* SPDX-License-Identifier: MIT */

/* The functions that the program calls instead of libuv's.
 *
 * With a wheel an uv_timer_t is in part libuv's and in part the wheel's:
 *
 *   data loop type close_cb handle_queue | u    | flags   | timer_cb ...
 *   libuv's                              | ours | libuv's | the wheel's
 *
 * Its private fields from timer_cb on hold an uvwheel_timer_t without its
 * `data`, which the wheel never touches. The rest stays a handle of libuv's:
 * uv_is_active, uv_ref, uv_loop_alive and all else that reads its flags work as
 * ever, because this file keeps the flags and the loop's count of active
 * handles as libuv does. The wheel itself does not keep the loop alive.
 *
 * libuv calls some of these functions, too: all of them for the timers of its
 * uv_fs_poll_t, uv_timer_stop and uv_timer_again for a timer that fires, and
 * each other. */

#include <stddef.h>
#include <string.h>

#include "try.h"

/* ---- What a handle holds ------------------------------------------------ */

/* uv_handle_t.u.reserved, which libuv leaves alone in timers */
#define CALLBACK 0 /* the program's                            */
#define RECORD 1   /* of the loop; NULL: the timer is libuv's  */
#define STATE 2    /* the bits below                           */

#define SERVED 1u   /* by the wheel                                     */
#define COUNTED 2u  /* among the active ones                            */
#define EXPIRING 4u /* by libuv, which stopped it to call it back */

static record_t *
record_of(const uv_timer_t *handle)
{
  return handle->u.reserved[RECORD];
}

static bool
has_state(const uv_timer_t *handle, uintptr_t state)
{
  return (uintptr_t)handle->u.reserved[STATE] & state;
}

static void
set_state(uv_timer_t *handle, uintptr_t state, bool on)
{
  uintptr_t others = (uintptr_t)handle->u.reserved[STATE] & ~state;

  handle->u.reserved[STATE] = (void *)(others | (on ? state : 0));
}

static uvwheel_timer_t *
inner_of(const uv_timer_t *handle)
{
  return (uvwheel_timer_t *)(void *)&((uv_timer_t *)(void *)handle)->timer_cb;
}

static uv_timer_t *
outer_of(uvwheel_timer_t *inner)
{
  return (uv_timer_t *)(void *)((char *)inner - offsetof(uv_timer_t, timer_cb));
}

static bool
is_active(const uv_timer_t *handle)
{
  return handle->flags & UV__HANDLE_ACTIVE;
}

static bool
is_closing(const uv_timer_t *handle)
{
  return uv_is_closing((const uv_handle_t *)handle);
}

/* Does libuv serve it, and has called back here while it did? Or is it none
 * that uv_timer_init below has seen? */
static bool
is_for_libuv(const uv_timer_t *handle)
{
  const record_t *record = record_of(handle);

  return record == NULL || record->is_in_libuv;
}

/* ---- Active or not ------------------------------------------------------ */

/* Keeps libuv's books of a timer that the wheel serves. */
static void
show_active(uv_timer_t *handle)
{
  bool active = uvwheel_timer_is_active(inner_of(handle));

  if (active == is_active(handle))
    return;
  handle->flags ^= UV__HANDLE_ACTIVE;
  if (handle->flags & UV__HANDLE_REF)
    handle->loop->active_handles += active ? 1 : (unsigned)-1;
}

/* To be called after whatever may have started or stopped the timer. */
static void
note_active(uv_timer_t *handle)
{
  tally_t *tally = &record_of(handle)->tally;

  if (has_state(handle, SERVED))
    show_active(handle);
  if (is_active(handle) == has_state(handle, COUNTED))
    return;
  set_state(handle, COUNTED, is_active(handle));
  tally->active += is_active(handle) ? 1 : (uint64_t)-1;
  if (tally->active > tally->active_most)
    tally->active_most = tally->active;
}

/* ---- Callbacks ---------------------------------------------------------- */

static void
set_callback(uv_timer_t *handle, uv_timer_cb cb)
{
  memcpy(&handle->u.reserved[CALLBACK], &cb, sizeof cb);
}

static void
fire(uv_timer_t *handle)
{
  record_t *record = record_of(handle);
  uv_timer_cb cb;

  memcpy(&cb, &handle->u.reserved[CALLBACK], sizeof cb);
  record->tally.fired++;
  record->is_in_callback = true;
  cb(handle);
  record->is_in_callback = false;
}

static void
on_uv_timer(uv_timer_t *handle)
{
  set_state(handle, EXPIRING, false);
  note_active(handle);
  fire(handle);
}

/* The time that the callback takes is not the wheel's. */
static void
on_wheel_timer(uvwheel_timer_t *inner)
{
  uv_timer_t *handle = outer_of(inner);
  record_t *record = record_of(handle);
  uint64_t began_ns;

  note_active(handle);
  if (record->turn.weight == 0) {
    fire(handle);
    return;
  }
  began_ns = now_ns();
  fire(handle);
  record->callbacks_ns += now_ns() - began_ns + clock_ns();
}

/* ---- Timers ------------------------------------------------------------- */

UV_EXTERN int
uv_timer_init(uv_loop_t *loop, uv_timer_t *handle)
{
  record_t *record = make_record(loop);
  stopwatch_t watch;
  tally_t *tally;

  memset(&handle->u, 0, sizeof handle->u);
  if (record == NULL)
    return real_uv_timer_init(loop, handle);
  tally = &record->tally;
  handle->u.reserved[RECORD] = record;
  set_state(handle, SERVED, record->has_wheel);
  if (record->has_wheel) {
    (void)real_uv_timer_init(loop, handle);
    watch = begin_call(tally, INIT);
    (void)uvwheel_timer_init(&record->wheel, inner_of(handle));
  } else {
    watch = begin_call(tally, INIT);
    (void)real_uv_timer_init(loop, handle);
  }
  end_call(&watch);
  if (++tally->open > tally->open_most)
    tally->open_most = tally->open;
  return 0;
}

UV_EXTERN int
uv_timer_start(uv_timer_t *handle, uv_timer_cb cb, uint64_t timeout,
               uint64_t repeat)
{
  record_t *record = record_of(handle);
  stopwatch_t watch;

  if (is_for_libuv(handle))
    return real_uv_timer_start(handle, cb, timeout, repeat);
  if (cb == NULL || is_closing(handle))
    return UV_EINVAL;
  record->tally.restarted += is_active(handle);
  set_callback(handle, cb);
  set_state(handle, EXPIRING, false);
  watch = begin_call(&record->tally, START);
  if (has_state(handle, SERVED)) {
    (void)uvwheel_timer_start(inner_of(handle), on_wheel_timer, timeout,
                              repeat);
  } else {
    record->is_in_libuv = true;
    (void)real_uv_timer_start(handle, on_uv_timer, timeout, repeat);
    record->is_in_libuv = false;
  }
  end_call(&watch);
  note_active(handle);
  return 0;
}

/* Is it libuv that stops the timer, to call it back? */
static bool
is_expiry(const uv_timer_t *handle)
{
  return is_active(handle) && handle->timeout <= uv_now(handle->loop) &&
         !record_of(handle)->is_in_callback;
}

static void
stop_real(uv_timer_t *handle)
{
  record_t *record = record_of(handle);
  bool expires = is_expiry(handle);
  stopwatch_t watch = begin_call(&record->tally, expires ? EXPIRE_STOP : STOP);

  record->is_in_libuv = true;
  (void)real_uv_timer_stop(handle);
  record->is_in_libuv = false;
  end_call(&watch);
  set_state(handle, EXPIRING, expires);
}

UV_EXTERN int
uv_timer_stop(uv_timer_t *handle)
{
  stopwatch_t watch;

  if (is_for_libuv(handle))
    return real_uv_timer_stop(handle);
  if (has_state(handle, SERVED)) {
    if (is_closing(handle))
      return 0;
    watch = begin_call(&record_of(handle)->tally, STOP);
    (void)uvwheel_timer_stop(inner_of(handle));
    end_call(&watch);
  } else {
    stop_real(handle);
  }
  note_active(handle);
  return 0;
}

UV_EXTERN int
uv_timer_again(uv_timer_t *handle)
{
  record_t *record = record_of(handle);
  stopwatch_t watch;
  int status;

  if (is_for_libuv(handle))
    return real_uv_timer_again(handle);
  if (is_closing(handle))
    return has_state(handle, SERVED) ? 0 : real_uv_timer_again(handle);
  record->tally.restarted += is_active(handle) && uv_timer_get_repeat(handle);
  if (has_state(handle, SERVED)) {
    watch = begin_call(&record->tally, AGAIN);
    status = uvwheel_timer_again(inner_of(handle));
  } else {
    watch = begin_call(&record->tally,
                       has_state(handle, EXPIRING) ? EXPIRE_AGAIN : AGAIN);
    record->is_in_libuv = true;
    status = real_uv_timer_again(handle);
    record->is_in_libuv = false;
  }
  end_call(&watch);
  note_active(handle);
  return status;
}

UV_EXTERN void
uv_timer_set_repeat(uv_timer_t *handle, uint64_t repeat)
{
  if (has_state(handle, SERVED))
    uvwheel_timer_set_repeat(inner_of(handle), repeat);
  else
    real_uv_timer_set_repeat(handle, repeat);
}

UV_EXTERN uint64_t
uv_timer_get_repeat(const uv_timer_t *handle)
{
  if (has_state(handle, SERVED))
    return uvwheel_timer_get_repeat(inner_of(handle));
  return real_uv_timer_get_repeat(handle);
}

UV_EXTERN uint64_t
uv_timer_get_due_in(const uv_timer_t *handle)
{
  if (has_state(handle, SERVED))
    return uvwheel_timer_get_due_in(inner_of(handle));
  return real_uv_timer_get_due_in(handle);
}

/* ---- Handles and loops -------------------------------------------------- */

/* Gives the private fields back as libuv's own init leaves them: all zeros but
 * for an empty queue, which follows timer_cb since 1.48. */
static void
give_back(uv_timer_t *handle)
{
  void **fields = (void **)(void *)&handle->timer_cb;

  memset(fields, 0, sizeof *handle - offsetof(uv_timer_t, timer_cb));
  fields[1] = fields[2] = &fields[1];
}

static void
close_timer(uv_timer_t *handle, uv_close_cb cb)
{
  record_t *record = record_of(handle);
  stopwatch_t watch;

  if (is_active(handle))
    (void)uv_timer_stop(handle);
  record->tally.open--;
  if (has_state(handle, SERVED)) {
    give_back(handle);
    real_uv_close((uv_handle_t *)handle, cb);
    return;
  }
  watch = begin_call(&record->tally, CLOSE);
  record->is_in_libuv = true;
  real_uv_close((uv_handle_t *)handle, cb);
  record->is_in_libuv = false;
  end_call(&watch);
}

UV_EXTERN void
uv_close(uv_handle_t *handle, uv_close_cb cb)
{
  if (handle->type == UV_TIMER && record_of((uv_timer_t *)handle) != NULL)
    close_timer((uv_timer_t *)handle, cb);
  else
    real_uv_close(handle, cb);
}

typedef struct walk_s {
  const record_t *record;
  uv_walk_cb cb;
  void *arg;
} walk_t;

static void
visit(uv_handle_t *handle, void *arg)
{
  const walk_t *walk = arg;

  if (!is_own_handle(walk->record, handle))
    walk->cb(handle, walk->arg);
}

UV_EXTERN void
uv_walk(uv_loop_t *loop, uv_walk_cb cb, void *arg)
{
  walk_t walk = {find_record(loop), cb, arg};

  if (walk.record != NULL)
    real_uv_walk(loop, visit, &walk);
  else
    real_uv_walk(loop, cb, arg);
}

UV_EXTERN int
uv_run(uv_loop_t *loop, uv_run_mode mode)
{
  return run_loop(loop, mode);
}

/* A program may use the memory of a loop that it never closed. */
UV_EXTERN int
uv_loop_init(uv_loop_t *loop)
{
  record_t *record = find_record(loop);

  if (record != NULL)
    release_record(record, false);
  return real_uv_loop_init(loop);
}

UV_EXTERN int
uv_loop_close(uv_loop_t *loop)
{
  record_t *record = find_record(loop);
  int status;

  if (record != NULL)
    close_own_handles(record);
  status = real_uv_loop_close(loop);
  if (record != NULL && status == 0)
    release_record(record, true);
  return status;
}
