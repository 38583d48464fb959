/* SPDX-License-Identifier: MIT */

/* The binding's wheel: made, closed, walked over. turn.c has what drives it. */

#include "uvwheel.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "mailbox.h"
#include "misuse.h"
#include "stall.h"
#include "timer.h"
#include "turn.h"
#include "wheel.h"

/* ---- Making ------------------------------------------------------------- */

/* Without slots in the options: as many as make a round of 51.2 s, but no more
 * than fit the second cache level. */
#define DEFAULT_ROUND_MS 51200
#define DEFAULT_MOST_SLOTS 16384

/* Are libuv's private fields where loop.h expects them? */
static bool
are_fields_known(const uv_loop_t *loop)
{
#ifdef UVWHEEL_PUBLIC_CALLS
  (void)loop;
#else
  const uv_handle_t *handle;
  uv_timer_t timer;

  memset(&timer, 0, sizeof timer);
  handle = (const uv_handle_t *)&timer;
  if (loop->time != uv_now(loop) || uv_is_closing(handle))
    return false;
  timer.flags = UV__HANDLE_CLOSING;
  if (!uv_is_closing(handle))
    return false;
  timer.flags = UV__HANDLE_CLOSED;
  if (!uv_is_closing(handle))
    return false;
#endif
  return true;
}

/* By how much the loop's clock may be behind a stopwatch, in addition to the
 * fraction of a millisecond that it drops. On Linux libuv reads the coarse
 * clock if that is precise to the millisecond. */
static uint64_t
clock_lag_ms(void)
{
#ifdef __linux__
  struct timespec precision;

  if (clock_getres(CLOCK_MONOTONIC_COARSE, &precision) == 0 &&
      precision.tv_sec == 0 && precision.tv_nsec <= 1000000)
    return 1;
#endif
  return 0;
}

static uint32_t
default_slots(uint64_t tick_ms)
{
  uint64_t slots = (DEFAULT_ROUND_MS + tick_ms - 1) / tick_ms;

  if (slots < UVWHEEL_DEFAULT_SLOTS)
    return UVWHEEL_DEFAULT_SLOTS;
  return slots < DEFAULT_MOST_SLOTS ? (uint32_t)slots : DEFAULT_MOST_SLOTS;
}

/* An option, its default if it is 0, no limit if it is UINT32_MAX. */
static uint64_t
choose(uint32_t option, uint32_t normal)
{
  if (option == UINT32_MAX)
    return UINT64_MAX;
  return option != 0 ? option : normal;
}

static void
set_limits(uvwheel_t *wheel, const uvwheel_options_t *options)
{
  uint64_t turn_ms = choose(options->turn_ms, UVWHEEL_DEFAULT_TURN_MS);

  wheel->turn_budget =
      choose(options->turn_budget, UVWHEEL_DEFAULT_TURN_BUDGET);
  wheel->turn_ns = turn_ms == UINT64_MAX ? UINT64_MAX : turn_ms * 1000000;
  wheel->read_every = 1;
  wheel->stall_ms = choose(options->stall_ms, UVWHEEL_DEFAULT_STALL_MS);
  if (options->max_timers != 0 && options->max_timers < UNLIMITED)
    wheel->core.most = wheel->core.allowed = options->max_timers;
}

int
uvwheel_init(uv_loop_t *loop, uvwheel_t *wheel,
             const uvwheel_options_t *options)
{
  uvwheel_options_t none = {0}, chosen = none;
  int error;

  if (loop == NULL || wheel == NULL || ((uintptr_t)wheel & HOME_FLAGS) != 0)
    return UV_EINVAL;
  if (options != NULL)
    chosen = *options;
  if (memcmp(chosen.reserved, none.reserved, sizeof none.reserved) != 0)
    return UV_EINVAL;
  if (!are_fields_known(loop))
    return UV_ENOTSUP;
  if (chosen.tick_ms == 0)
    chosen.tick_ms = UVWHEEL_DEFAULT_TICK_MS;
  if (chosen.slots == 0)
    chosen.slots = default_slots(chosen.tick_ms);
  error = uvwheel__core_init(&wheel->core, chosen.tick_ms, chosen.slots,
                             chosen.flags);
  if (error != 0)
    return error == ENOMEM ? UV_ENOMEM : UV_EINVAL;
  memset((char *)wheel + offsetof(uvwheel_t, driver), 0,
         sizeof *wheel - offsetof(uvwheel_t, driver));
  wheel->loop = loop;
  wheel->set_back_ms = 0;
  wheel->lag_ms = clock_lag_ms();
  set_limits(wheel, &chosen);
  uvwheel__init_turns(wheel);
  uvwheel__init_stalls(wheel);
  uvwheel__init_mailbox(wheel);
  uvwheel__register(wheel);
  return 0;
}

/* ---- Closing ------------------------------------------------------------ */

#ifndef UVWHEEL_PUBLIC_CALLS

/* Is the close of a handle finished? */
static bool
is_closed(const uv_handle_t *handle)
{
  return handle->flags & UV__HANDLE_CLOSED;
}

#else

struct search {
  const uv_handle_t *handle;
  bool found;
};

static void
compare(uv_handle_t *handle, void *search)
{
  if (handle == ((struct search *)search)->handle)
    ((struct search *)search)->found = true;
}

/* Is the close of a handle finished? The loop no longer lists it then. */
static bool
is_closed(const uv_handle_t *handle)
{
  struct search search = {handle, false};

  uv_walk(uv_handle_get_loop(handle), compare, &search);
  return !search.found;
}

#endif

static void on_closer(uv_prepare_t *closer);

#define MOST_HANDLES 5

/* Lists the handles that the wheel keeps from its init to its close. */
static unsigned
list_handles(uvwheel_t *wheel, uv_handle_t *handles[MOST_HANDLES])
{
  unsigned count = 0;

  handles[count++] = (uv_handle_t *)&wheel->driver;
  handles[count++] = (uv_handle_t *)&wheel->no_wait;
  handles[count++] = (uv_handle_t *)&wheel->after_poll;
#ifdef UVWHEEL_CHECKS
  handles[count++] = (uv_handle_t *)&wheel->before_poll;
#endif
  if (wheel->flags & HAS_MAILBOX)
    handles[count++] = (uv_handle_t *)&wheel->async;
  return count;
}

static bool
are_closed(uvwheel_t *wheel)
{
  uv_handle_t *handles[MOST_HANDLES];
  unsigned count = list_handles(wheel, handles), i;

  for (i = 0; i < count; i++)
    if (!is_closed(handles[i]))
      return false;
  return true;
}

/* Finishes once libuv does not refer to the wheel any more. If a walk still
 * does, this is called again at its end. If others have begun to close a
 * handle, no callback says when they are done: each iteration of the loop
 * looks. */
static void
finish_close(uvwheel_t *wheel)
{
  if (wheel->open_handles != 0 || wheel->core.cursor != NULL)
    return;
  if (!are_closed(wheel)) {
    wheel->open_handles++;
    (void)uv_prepare_init(wheel->loop, &wheel->closer);
    (void)uv_prepare_start(&wheel->closer, on_closer);
    return;
  }
  uvwheel__unregister(wheel);
  uvwheel__core_destroy(&wheel->core);
  uvwheel__cancel_posts(wheel);
  if (wheel->close_cb != NULL)
    wheel->close_cb(wheel);
}

static void
on_handle_closed(uv_handle_t *handle)
{
  uvwheel_t *wheel = handle->data;

  wheel->open_handles--;
  finish_close(wheel);
}

static void
close_handle(uvwheel_t *wheel, uv_handle_t *handle)
{
  handle->data = wheel;
  uv_close(handle, on_handle_closed);
}

static void
on_closer(uv_prepare_t *closer)
{
  uvwheel_t *wheel = CONTAINER_OF(closer, uvwheel_t, closer);

  if (are_closed(wheel))
    close_handle(wheel, (uv_handle_t *)closer);
}

static void
stop(uvwheel_timer_t *timer, void *unused)
{
  (void)unused;
  (void)uvwheel_timer_stop(timer);
}

void
uvwheel_close(uvwheel_t *wheel, uvwheel_close_cb cb)
{
  uv_handle_t *handles[MOST_HANDLES];
  unsigned count, i;

  if (!is_wheel(wheel) || (wheel->flags & CLOSING))
    return;
  uvwheel_walk(wheel, stop, NULL);
  wheel->flags |= CLOSING;
  wheel->close_cb = cb;
  if (wheel->flags & HAS_MAILBOX)
    uvwheel__close_mailbox(wheel);
  count = list_handles(wheel, handles);
  for (i = 0; i < count; i++) {
    if (uv_is_closing(handles[i]))
      continue; /* others close it */
    wheel->open_handles++;
    close_handle(wheel, handles[i]);
  }
  finish_close(wheel);
}

/* Every init of libuv sets the callback, whereas others need not set data. */
int
uvwheel_owns_handle(const uv_handle_t *handle)
{
  if (handle == NULL)
    return 0;
  switch (handle->type) {
  case UV_TIMER:
    return ((const uv_timer_t *)handle)->timer_cb == uvwheel__on_due;
  case UV_IDLE:
    return ((const uv_idle_t *)handle)->idle_cb == uvwheel__on_no_wait;
  case UV_CHECK:
    return ((const uv_check_t *)handle)->check_cb == uvwheel__on_after_poll;
  case UV_ASYNC:
    return ((const uv_async_t *)handle)->async_cb == uvwheel__on_wake;
  case UV_PREPARE:
#ifdef UVWHEEL_CHECKS
    if (((const uv_prepare_t *)handle)->prepare_cb == uvwheel__enter_loop)
      return 1;
#endif
    return ((const uv_prepare_t *)handle)->prepare_cb == on_closer;
  default:
    return 0;
  }
}

/* ---- The wheel ---------------------------------------------------------- */

int
uvwheel_is_closing(const uvwheel_t *wheel)
{
  return is_wheel(wheel) && is_closing(wheel);
}

uv_loop_t *
uvwheel_get_loop(const uvwheel_t *wheel)
{
  return is_wheel(wheel) ? wheel->loop : NULL;
}

uint64_t
uvwheel_now(const uvwheel_t *wheel)
{
  return is_wheel(wheel) ? reported_now(wheel) : 0;
}

uint64_t
uvwheel_count(const uvwheel_t *wheel)
{
  return is_wheel(wheel) ? uvwheel__core_count(&wheel->core) : 0;
}

void
uvwheel_walk(uvwheel_t *wheel, uvwheel_walk_cb cb, void *arg)
{
  uvwheel_cursor_t cursor;
  uvwheel_entry_t *entry;

  if (!has_slots(wheel) || cb == NULL)
    return;
  uvwheel__core_walk_begin(&wheel->core, &cursor);
  while ((entry = uvwheel__core_walk_next(&wheel->core, &cursor)) != NULL)
    cb(CONTAINER_OF(entry, uvwheel_timer_t, entry), arg);
  if (wheel->flags & CLOSING)
    finish_close(wheel);
  else if (wheel->core.cursor == NULL)
    uvwheel__arm(wheel);
}

static void
set_unref(uvwheel_t *wheel, uint64_t unref)
{
  if (!is_wheel(wheel))
    return;
  wheel->flags = (wheel->flags & ~(uint64_t)UNREF) | unref;
  uvwheel__update_ref(wheel);
}

void
uvwheel_ref(uvwheel_t *wheel)
{
  set_unref(wheel, 0);
}

void
uvwheel_unref(uvwheel_t *wheel)
{
  set_unref(wheel, UNREF);
}

int
uvwheel_has_ref(const uvwheel_t *wheel)
{
  return is_wheel(wheel) && !(wheel->flags & UNREF);
}
