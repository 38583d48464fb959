/* SPDX-License-Identifier: MIT */

/* A time stamp per connection, and one uv_timer_t that looks at all of them
 * once a second. */

typedef struct rival_timer_s rival_timer_t;
typedef void (*rival_cb)(rival_timer_t *timer);

#define RIVAL(name) rival_sweep_##name
#define rival_end end_sweep

static void end_sweep(void);

#include "rival-names.h"

#define PERIOD_MS 1000

struct rival_timer_s {
  rival_timer_t *next, *previous; /* of all connections, in a ring */
  uint64_t due_ms;
};

static struct {
  uv_timer_t period;
  rival_timer_t ring;
  uint64_t timeout_ms;
  rival_cb on_expired;
} sweep;

static void on_period(uv_timer_t *period) {
  uint64_t now_ms = uv_now(period->loop);
  rival_timer_t *next;

  for (rival_timer_t *timer = sweep.ring.next; timer != &sweep.ring;
       timer = next) {
    next = timer->next; /* the callback closes this one */
    if (timer->due_ms <= now_ms)
      sweep.on_expired(timer);
  }
}

static void begin_sweep(void) {
  sweep.ring.next = sweep.ring.previous = &sweep.ring;
  uv_timer_init(rival.loop, &sweep.period);
  uv_timer_start(&sweep.period, on_period, PERIOD_MS, PERIOD_MS);
}

static void end_sweep(void) {
  if (sweep.ring.next != NULL)
    uv_close((uv_handle_t *)&sweep.period, NULL);
}

static void rival_refresh(rival_timer_t *timer) {
  timer->due_ms = uv_now(rival.loop) + sweep.timeout_ms;
}

static int rival_start(rival_timer_t *timer, rival_cb cb, uint64_t timeout) {
  int error = count_timer();

  if (error != 0)
    return error;
  if (sweep.ring.next == NULL)
    begin_sweep();
  sweep.on_expired = cb;
  sweep.timeout_ms = timeout + 1; /* as in rival-uv.c */
  timer->next = &sweep.ring;
  timer->previous = sweep.ring.previous;
  timer->previous->next = sweep.ring.previous = timer;
  rival_refresh(timer);
  return 0;
}

static void rival_close(rival_timer_t *timer) {
  rival.timers--;
  timer->next->previous = timer->previous;
  timer->previous->next = timer->next;
}

#include "../echo.c" /* NOLINT(bugprone-suspicious-include) */

const rival_t rival_sweep = {"sweep", sizeof(rival_timer_t), echo_init,
                             echo_on_connection, echo_stop};
