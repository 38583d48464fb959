/* SPDX-License-Identifier: MIT */

/* The wheel of a loop: init, close and walk. turn.c drives it. */

#include "binding.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* ---- Making ------------------------------------------------------------- */

/* Without slots in the options: as many as make a round of 51.2 s, but no more
 * than fit the second cache level. */
#define DEFAULT_ROUND_MS 51200
#define DEFAULT_MAX_SLOTS 16384

/* Are libuv's private fields where binding.h and turn.c expect them? The queue
 * of watchers stands two pointers behind the backend's descriptor. */
static bool
are_fields_known(const uv_loop_t *loop)
{
  const unsigned flags[] = {0, UV__HANDLE_CLOSING, UV__HANDLE_CLOSED};
  uv_timer_t timer;
  unsigned i = 0;

#ifndef _WIN32
  if (loop->backend_fd != uv_backend_fd(loop))
    return false;
#endif
  memset(&timer, 0, sizeof timer);
  for (; i < 3; i++) {
    timer.flags = flags[i];
    if (uv_is_closing((uv_handle_t *)&timer) != (i > 0))
      return false;
  }
  return loop->time == uv_now(loop);
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
  return slots < DEFAULT_MAX_SLOTS ? (uint32_t)slots : DEFAULT_MAX_SLOTS;
}

static void
choose_defaults(uvwheel_options_t *options)
{
  if (options->tick_ms == 0)
    options->tick_ms = UVWHEEL_DEFAULT_TICK_MS;
  if (options->slots == 0)
    options->slots = default_slots(options->tick_ms);
  if (options->turn_budget == 0)
    options->turn_budget = UVWHEEL_DEFAULT_TURN_BUDGET;
  if (options->turn_ms == 0)
    options->turn_ms = UVWHEEL_DEFAULT_TURN_MS;
  if (options->stall_ms == 0)
    options->stall_ms = UVWHEEL_DEFAULT_STALL_MS;
}

int
uvwheel_init(uv_loop_t *loop, uvwheel_t *wheel,
             const uvwheel_options_t *options)
{
  uvwheel_options_t none = {0}, chosen = none;
  int error;

  if (loop == NULL || wheel == NULL || ((uintptr_t)wheel & TIMER_FLAGS) != 0)
    return UV_EINVAL;
  if (options != NULL)
    chosen = *options;
  if (memcmp(chosen.reserved, none.reserved, sizeof none.reserved) != 0)
    return UV_EINVAL;
  if (!are_fields_known(loop))
    return UV_ENOTSUP;
  choose_defaults(&chosen);
  error = uvwheel__core_init(&wheel->core, chosen.tick_ms, chosen.slots,
                             chosen.flags);
  if (error != 0)
    return error == ENOMEM ? UV_ENOMEM : UV_EINVAL;
  chosen.slots = (uint32_t)wheel->core.slot_mask + 1;
  if (chosen.max_timers != 0)
    wheel->core.capacity = wheel->core.insert_limit = chosen.max_timers;
  memset((char *)wheel + offsetof(uvwheel_t, driver), 0,
         sizeof *wheel - offsetof(uvwheel_t, driver));
  wheel->loop = loop;
  wheel->set_back_ms = 0;
  wheel->options = chosen;
  wheel->lag_ms = clock_lag_ms();
  wheel->read_every = 1;
  uvwheel__init_turns(wheel);
  uvwheel__init_stalls(wheel);
  return 0;
}

/* ---- Closing ------------------------------------------------------------ */

#define MAX_HANDLES 4

/* Lists the handles that the wheel keeps from its init to its close. */
static unsigned
list_handles(uvwheel_t *wheel, uv_handle_t *handles[MAX_HANDLES])
{
  unsigned count = 0;

  handles[count++] = (uv_handle_t *)&wheel->driver;
  handles[count++] = (uv_handle_t *)&wheel->idle;
  handles[count++] = (uv_handle_t *)&wheel->check;
  if (wheel->has_mailbox)
    handles[count++] = (uv_handle_t *)&wheel->async;
  return count;
}

static bool
are_closed(uvwheel_t *wheel)
{
  uv_handle_t *handles[MAX_HANDLES];
  unsigned count = list_handles(wheel, handles), i;

  for (i = 0; i < count; i++)
    if (!(handles[i]->flags & UV__HANDLE_CLOSED))
      return false;
  return true;
}

static void finish_close(uvwheel_t *wheel);

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
  wheel->open_handles++;
  handle->data = wheel;
  uv_close(handle, on_handle_closed);
}

/* In each iteration, until libuv is done with the handles that others close. */
void
uvwheel__on_close_watch(uv_idle_t *close_watch)
{
  if (are_closed(close_watch->data))
    uv_close((uv_handle_t *)close_watch, on_handle_closed);
}

/* Finishes once libuv does not refer to the wheel any more. If a walk still
 * does, this is called again at its end. If others have begun to close a
 * handle, no callback says when libuv is done with it: then close_watch looks.
 */
static void
finish_close(uvwheel_t *wheel)
{
  if (wheel->open_handles != 0 || (wheel->flags & WALKS))
    return;
  if (!are_closed(wheel)) {
    (void)uv_idle_init(wheel->loop, &wheel->close_watch);
    (void)uv_idle_start(&wheel->close_watch, uvwheel__on_close_watch);
    wheel->close_watch.data = wheel;
    wheel->open_handles++;
    return;
  }
  uvwheel__core_destroy(&wheel->core);
  uvwheel__destroy_mailbox(wheel);
  if (wheel->close_cb != NULL)
    wheel->close_cb(wheel);
}

void
uvwheel_close(uvwheel_t *wheel, uvwheel_close_cb cb)
{
  uv_handle_t *handles[MAX_HANDLES];
  uvwheel_entry_t *entry;
  unsigned count, i;

  if (!is_wheel(wheel) || (wheel->flags & CLOSING))
    return;
  while ((entry = uvwheel__core_any(&wheel->core)) != NULL)
    (void)uvwheel_timer_stop(timer_of(entry));
  wheel->flags |= CLOSING;
  wheel->close_cb = cb;
  uvwheel__close_mailbox(wheel);
  count = list_handles(wheel, handles);
  for (i = 0; i < count; i++)
    if (!uv_is_closing(handles[i])) /* else others close it */
      close_handle(wheel, handles[i]);
  finish_close(wheel);
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
  return is_wheel(wheel) ? public_now(wheel) : 0;
}

uint64_t
uvwheel_count(const uvwheel_t *wheel)
{
  return is_wheel(wheel) ? uvwheel__core_count(&wheel->core) : 0;
}

void
uvwheel_walk(uvwheel_t *wheel, uvwheel_walk_cb cb, void *arg)
{
  uvwheel_entry_t *entry;

  if (!is_open(wheel) || cb == NULL || (wheel->flags & WALKS))
    return;
  wheel->flags |= WALKS;
  uvwheel__core_walk_begin(&wheel->core);
  while ((entry = uvwheel__core_walk_next(&wheel->core)) != NULL)
    cb(timer_of(entry), arg);
  wheel->flags &= ~(uint64_t)WALKS;
  if (wheel->flags & CLOSING)
    finish_close(wheel);
  else
    uvwheel__arm(wheel);
}

void
uvwheel_ref(uvwheel_t *wheel)
{
  if (!is_wheel(wheel))
    return;
  wheel->flags &= ~(uint64_t)UNREF;
  uvwheel__update_refs(wheel);
}

void
uvwheel_unref(uvwheel_t *wheel)
{
  if (!is_wheel(wheel))
    return;
  wheel->flags |= UNREF;
  uvwheel__update_refs(wheel);
}

int
uvwheel_has_ref(const uvwheel_t *wheel)
{
  return is_wheel(wheel) && !(wheel->flags & UNREF);
}

/* ---- Version ------------------------------------------------------------ */

unsigned
uvwheel_version(void)
{
  return UVWHEEL_VERSION_HEX;
}

#define QUOTE(number) #number
#define VERSION(major, minor, patch) \
  QUOTE(major) "." QUOTE(minor) "." QUOTE(patch)

const char *
uvwheel_version_string(void)
{
  return VERSION(UVWHEEL_VERSION_MAJOR, UVWHEEL_VERSION_MINOR,
                 UVWHEEL_VERSION_PATCH);
}
