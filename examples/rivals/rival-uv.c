/* SPDX-License-Identifier: MIT */

typedef struct rival_timer_s rival_timer_t;
typedef void (*rival_cb)(rival_timer_t *timer);

#define RIVAL(name) rival_uv_##name
#include "rival-names.h"

struct rival_timer_s {
  uv_timer_t uv;
};

static rival_cb on_rival_expired;

static void
on_uv_timer(uv_timer_t *timer)
{
  on_rival_expired((rival_timer_t *)timer);
}

/* The clock of libuv drops fractions of a millisecond, so that a uv_timer_t
 * may fire up to 1 ms early (libuv#4773): to promise "never early", as the
 * wheel does, takes one millisecond more. */
static int
rival_start(rival_timer_t *timer, rival_cb cb, uint64_t timeout)
{
  int error = count_timer();

  if (error != 0)
    return error;
  on_rival_expired = cb;
  uv_timer_init(rival.loop, &timer->uv);
  timer->uv.data = NULL; /* not the echo_t: it is no connection */
  return uv_timer_start(&timer->uv, on_uv_timer, timeout + 1, timeout + 1);
}

static void
rival_refresh(rival_timer_t *timer)
{
  uv_timer_again(&timer->uv);
}

/* echo.c closes the socket before and frees the connection in the callback of
 * that: libuv finishes what was closed last first. */
static void
rival_close(rival_timer_t *timer)
{
  rival.timers--;
  uv_close((uv_handle_t *)&timer->uv, NULL);
}

#include "../echo.c" /* NOLINT(bugprone-suspicious-include) */

const rival_t rival_uv = {"uv", sizeof(rival_timer_t), echo_init,
                          echo_on_connection, echo_stop};
