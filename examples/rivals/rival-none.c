/* SPDX-License-Identifier: MIT */

typedef struct rival_timer_s rival_timer_t;
typedef void (*rival_cb)(rival_timer_t *timer);

#define RIVAL(name) rival_none_##name
#include "rival-names.h"

struct rival_timer_s {
  char none;
};

static int
rival_start(rival_timer_t *timer, rival_cb cb, uint64_t timeout)
{
  (void)timer, (void)cb, (void)timeout;
  return count_timer();
}

static void
rival_refresh(rival_timer_t *timer)
{
  (void)timer;
}

static void
rival_close(rival_timer_t *timer)
{
  (void)timer;
  rival.timers--;
}

#include "../echo.c" /* NOLINT(bugprone-suspicious-include) */

const rival_t rival_none = {"none", 0, echo_init, echo_on_connection,
                            echo_stop};
