/* SPDX-License-Identifier: MIT */

/* The binding: drives a wheel from a libuv loop.
 *
 * One uv_timer_t, the driver, is armed for the next tick at which the wheel
 * has something to look at, and not armed at all when the wheel is empty. What
 * happens inside a turn (the driver's callback) arms nothing: the turn does
 * that once, at its end. */

#include "uvwheel.h"

#include <errno.h>
#include <string.h>

#include "binding.h"

/* ---- The driver --------------------------------------------------------- */

static void on_turn(uv_timer_t *driver);

/* Arms the driver for the next tick of interest. What a turn left over because
 * its budget was used up waits for a poll: libuv before 1.48 would run a timer
 * that is re-armed at 0 in its own callback again in the same pass. */
void
uvwheel__arm(uvwheel_t *wheel)
{
  uint64_t now_ms = now_of(wheel);
  uint64_t next_ms = uvwheel_core_next_ms(&wheel->core);
  uint64_t delay_ms;

  if (wheel->flags & IN_TURN)
    return;
  if (next_ms > now_ms)
    delay_ms = next_ms - now_ms;
  else
    delay_ms = uv_version() < 0x013000 ? 1 : 0;
  (void)uv_timer_start(&wheel->driver, on_turn, delay_ms, 0);
}

static void
set_ref(uv_handle_t *handle, bool ref)
{
  if (ref)
    uv_ref(handle);
  else
    uv_unref(handle);
}

/* An unref'd wheel keeps no loop alive, nor does a driver whose timers are all
 * unref'd. */
void
uvwheel__update_ref(uvwheel_t *wheel)
{
  bool ref = !(wheel->flags & UNREF);

  wheel->usual_max = wheel->unrefd == 0 ? wheel->max_timers : 0;
  set_ref((uv_handle_t *)&wheel->driver,
          ref && (wheel->unrefd == 0 || wheel->unrefd != wheel->core.count));
  if (wheel->mailbox != NULL)
    set_ref((uv_handle_t *)&wheel->mailbox->async, ref);
}

static void
on_turn(uv_timer_t *driver)
{
  uvwheel_t *wheel = CONTAINER_OF(driver, uvwheel_t, driver);
  uint64_t now_ms = now_of(wheel);
  uint64_t budget = wheel->turn_budget;
  uvwheel_entry_t *entry;

  uvwheel__adopt_thread(wheel);
  wheel->stats.turns++;
  wheel->flags |= IN_TURN;
  /* A walk whose callback runs the loop has its places in the lists; and a
   * callback may find that the clock stepped back. */
  while (wheel->core.cursor == NULL && !is_closing(wheel) &&
         now_of(wheel) >= now_ms &&
         (entry = uvwheel_core_expire(&wheel->core, now_ms, &budget)) != NULL)
    uvwheel__fire(wheel, entry);
  wheel->flags &= ~IN_TURN;
  if (budget == 0 && uvwheel_core_next_ms(&wheel->core) <= now_ms)
    wheel->stats.turns_cut++;
  if (wheel->core.count != 0)
    uvwheel__arm(wheel);
}

/* ---- The wheel ---------------------------------------------------------- */

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
  error = uvwheel_core_init(
      &wheel->core,
      chosen.tick_ms != 0 ? chosen.tick_ms : UVWHEEL_DEFAULT_TICK_MS,
      chosen.slots != 0 ? chosen.slots : UVWHEEL_DEFAULT_SLOTS, chosen.flags);
  if (error != 0)
    return error == ENOMEM ? UV_ENOMEM : UV_EINVAL;
  memset((char *)wheel + offsetof(uvwheel_t, driver), 0,
         sizeof *wheel - offsetof(uvwheel_t, driver));
  wheel->loop = loop;
  (void)uv_timer_init(loop, &wheel->driver);
  wheel->turn_budget = chosen.turn_budget != 0 ? chosen.turn_budget
                                               : UVWHEEL_DEFAULT_TURN_BUDGET;
  if (wheel->turn_budget == UINT32_MAX)
    wheel->turn_budget = UINT64_MAX;
  wheel->max_timers = chosen.max_timers != 0 ? chosen.max_timers : UINT64_MAX;
  wheel->usual_max = wheel->max_timers;
  uvwheel__check_in(wheel);
  return 0;
}

/* Once libuv does not refer to the wheel any more. Should a walk do so, this is
 * called again when that is over. */
static void
finish_close(uvwheel_t *wheel)
{
  if (wheel->open_handles != 0 || wheel->core.cursor != NULL)
    return;
  uvwheel__check_out(wheel);
  uvwheel_core_destroy(&wheel->core);
  if (wheel->mailbox != NULL)
    uvwheel__mailbox_cancel(wheel->mailbox);
  if (wheel->close_cb != NULL)
    wheel->close_cb(wheel);
}

/* Has a handle closed. When that is done, by whomever, `closed` is called,
 * which calls handle_closed with what is kept in *theirs: the callback of
 * somebody else who began to close it. */
static void
close_handle(uvwheel_t *wheel, uv_handle_t *handle, uv_close_cb closed,
             uv_close_cb *theirs)
{
  *theirs = NULL;
  if (handle->flags & UV__HANDLE_CLOSED)
    return;
  wheel->open_handles++;
  if (!uv_is_closing(handle)) {
    uv_close(handle, closed);
  } else {
    *theirs = handle->close_cb;
    handle->close_cb = closed;
  }
}

static void
handle_closed(uvwheel_t *wheel, uv_handle_t *handle, uv_close_cb theirs)
{
  if (theirs != NULL)
    theirs(handle);
  wheel->open_handles--;
  finish_close(wheel);
}

static void
on_driver_closed(uv_handle_t *driver)
{
  uvwheel_t *wheel = CONTAINER_OF(driver, uvwheel_t, driver);

  handle_closed(wheel, driver, wheel->driver_close_cb);
}

static void
on_async_closed(uv_handle_t *async)
{
  uvwheel_mailbox_t *mailbox = CONTAINER_OF(async, uvwheel_mailbox_t, async);

  handle_closed(mailbox->wheel, async, mailbox->async_close_cb);
}

static void
stop_all(uvwheel_t *wheel)
{
  uvwheel_cursor_t cursor;
  uvwheel_entry_t *entry;

  uvwheel_core_walk_begin(&wheel->core, &cursor);
  while ((entry = uvwheel_core_walk_next(&wheel->core, &cursor)) != NULL)
    uvwheel__make_idle(wheel, entry);
  wheel->unrefd = 0;
}

void
uvwheel_close(uvwheel_t *wheel, uvwheel_close_cb cb)
{
  if (wheel == NULL || wheel->loop == NULL || (wheel->flags & CLOSING))
    return;
  uvwheel__check_thread(wheel, NULL);
  wheel->flags |= CLOSING;
  wheel->close_cb = cb;
  stop_all(wheel);
  close_handle(wheel, (uv_handle_t *)&wheel->driver, on_driver_closed,
               &wheel->driver_close_cb);
  if (wheel->mailbox != NULL) {
    uvwheel__mailbox_close(wheel->mailbox);
    close_handle(wheel, (uv_handle_t *)&wheel->mailbox->async, on_async_closed,
                 &wheel->mailbox->async_close_cb);
  }
  finish_close(wheel);
}

int
uvwheel_is_closing(const uvwheel_t *wheel)
{
  return wheel != NULL && is_closing(wheel);
}

uv_loop_t *
uvwheel_get_loop(const uvwheel_t *wheel)
{
  return wheel == NULL ? NULL : wheel->loop;
}

uint64_t
uvwheel_count(const uvwheel_t *wheel)
{
  return wheel == NULL ? 0 : wheel->core.count;
}

void
uvwheel_walk(uvwheel_t *wheel, uvwheel_walk_cb cb, void *arg)
{
  uvwheel_cursor_t cursor;
  uvwheel_entry_t *entry;

  if (wheel == NULL || wheel->core.lanes == NULL || cb == NULL)
    return;
  uvwheel__check_thread(wheel, NULL);
  uvwheel_core_walk_begin(&wheel->core, &cursor);
  while ((entry = uvwheel_core_walk_next(&wheel->core, &cursor)) != NULL)
    cb(CONTAINER_OF(entry, uvwheel_timer_t, entry), arg);
  if (wheel->flags & CLOSING)
    finish_close(wheel);
}

static void
set_unref(uvwheel_t *wheel, uint64_t unref)
{
  if (wheel == NULL || wheel->loop == NULL)
    return;
  uvwheel__check_thread(wheel, NULL);
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
  return wheel != NULL && wheel->loop != NULL && !(wheel->flags & UNREF);
}
