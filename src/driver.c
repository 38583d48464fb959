/* SPDX-License-Identifier: MIT */

#include "driver.h"

#include "stall.h"

/* While the wheel is polling, the driver looks from time to time whether others
 * have closed the two handles that the turn needs. */
#define WATCH_MS 1000

static bool
is_sibling_closing(const uvwheel_t *wheel)
{
  return uv_is_closing((const uv_handle_t *)&wheel->no_wait) ||
         uv_is_closing((const uv_handle_t *)&wheel->after_poll);
}

static void
arm(uvwheel_t *wheel)
{
  uint64_t now_ms = passed_by(wheel, loop_now(wheel));
  uint64_t next_ms = uvwheel_core_next_ms(&wheel->core);
  uint64_t delay_ms = next_ms > now_ms ? next_ms - now_ms : 0;
  uint64_t wake_ms = add_ms(loop_now(wheel), delay_ms);

  /* Never push back a wake-up that is overdue. */
  if ((wheel->flags & ARMED) && wake_ms >= wheel->wake_ms)
    return;
  wheel->flags |= ARMED;
  wheel->wake_ms = wake_ms;
  (void)uv_timer_start(&wheel->driver, uvwheel__on_due, delay_ms, WATCH_MS);
}

void
uvwheel__arm(uvwheel_t *wheel)
{
  /* If others have closed the driver the loop may be gone. */
  if (!(wheel->flags & (IN_BATCH | POLLING)) && !is_closing(wheel))
    arm(wheel);
}

void
uvwheel__disarm(uvwheel_t *wheel)
{
  wheel->flags &= ~(uint64_t)(ARMED | POLLING | HEARD);
  (void)uv_timer_stop(&wheel->driver);
  (void)uv_idle_stop(&wheel->no_wait);
}

void
uvwheel__rearm(uvwheel_t *wheel)
{
  uvwheel__disarm(wheel);
  if (uvwheel_core_count(&wheel->core) != 0)
    arm(wheel);
}

void
uvwheel__abandon(uvwheel_t *wheel)
{
  (void)uv_idle_stop(&wheel->no_wait);
  if (!is_closing(wheel))
    uv_close((uv_handle_t *)&wheel->driver, NULL);
}

/* While it is active, polls do not wait. It keeps the loop alive as the driver
 * does. */
void
uvwheel__on_no_wait(uv_idle_t *no_wait)
{
  uvwheel_t *wheel = CONTAINER_OF(no_wait, uvwheel_t, no_wait);

  if (is_closing(wheel) || is_sibling_closing(wheel))
    uvwheel__abandon(wheel);
}

/* Has the loop poll before anything fires. */
void
uvwheel__on_due(uv_timer_t *driver)
{
  uvwheel_t *wheel = CONTAINER_OF(driver, uvwheel_t, driver);
  uint64_t heard_ms = heard_until(wheel);

  wheel->flags &= ~(uint64_t)ARMED;
  if (is_sibling_closing(wheel)) {
    uvwheel__abandon(wheel);
    return;
  }
  /* A walk whose callback runs the loop has its places in the lists. At its end
   * it arms the driver. */
  if (wheel->core.cursor != NULL || (wheel->flags & POLLING))
    return;
  wheel->flags |= POLLING;
  wheel->heard_ms = heard_ms;
  wheel->polled_ms = loop_now(wheel);
  wheel->quiet_by_ms = 0;
  (void)uv_idle_start(&wheel->no_wait, uvwheel__on_no_wait);
}

/* The handles are started once, so that libuv and uvwheel_owns_handle know
 * their callbacks. */
void
uvwheel__init_driver(uvwheel_t *wheel)
{
  (void)uv_timer_init(wheel->loop, &wheel->driver);
  (void)uv_timer_start(&wheel->driver, uvwheel__on_due, 0, 0);
  (void)uv_timer_stop(&wheel->driver);
  (void)uv_idle_init(wheel->loop, &wheel->no_wait);
  (void)uv_idle_start(&wheel->no_wait, uvwheel__on_no_wait);
  (void)uv_idle_stop(&wheel->no_wait);
}

static void
set_ref(uv_handle_t *handle, bool ref)
{
  if (ref)
    uv_ref(handle);
  else
    uv_unref(handle);
}

/* An unref'd wheel keeps no loop alive, nor does one whose timers are all
 * unref'd. */
void
uvwheel__update_ref(uvwheel_t *wheel)
{
  bool ref = !(wheel->flags & UNREF);
  bool driven = ref && (wheel->unrefd == 0 ||
                        wheel->unrefd != uvwheel_core_count(&wheel->core));

  /* While timers are unref'd each start has to come here. */
  wheel->core.usual_ms = wheel->unrefd == 0 ? wheel->core.divided_ms : 0;
  set_ref((uv_handle_t *)&wheel->driver, driven);
  set_ref((uv_handle_t *)&wheel->no_wait, driven);
  if (wheel->flags & HAS_MAILBOX)
    set_ref((uv_handle_t *)&wheel->async, ref);
}
