/* SPDX-License-Identifier: MIT */

/* echo.c below calls these functions instead of the wheel's. Its own get other
 * names. */

#define echo_init rival_init
#define echo_on_connection rival_on_connection
#define echo_stop rival_stop
#define echo_format rival_format

#include "rivals.h"

#define uvwheel_timer_t rival_timer_t
#define uvwheel_timer_init(wheel, timer) ((void)(wheel), (void)(timer))
#define uvwheel_timer_start(timer, cb, timeout, repeat) \
  rival_start(timer, cb, timeout)
#define uvwheel_timer_refresh rival_refresh
#define uvwheel_timer_set_repeat(timer, repeat) ((void)(timer), (void)(repeat))
#define uvwheel_timer_close rival_close
#define uvwheel_init rival_open
#define uvwheel_close(wheel, cb) ((void)(wheel))
#define uvwheel_count(wheel) ((void)(wheel), UINT64_C(0))
#define uvwheel_fire_soonest(wheel, count) ((void)(wheel), (void)(count))
#define uvwheel_owns_handle(handle) ((void)(handle), 0)

typedef struct rival_timer_s rival_timer_t;
typedef void (*rival_cb)(rival_timer_t *timer);

struct rival_timer_s {
  uv_timer_t uv;
  uint64_t due_ms; /* of a second chance */
  int is_last_chance;
};

/* There is one server in a process. */
static struct {
  uv_loop_t *loop;
  uint64_t timers, max_timers;
} rival;
static rival_cb on_rival_expired;
static enum { PLAIN, CHANCE, NONE } kind; /* see rivals.h */

static int rival_open(uv_loop_t *loop, uvwheel_t *wheel,
                      const uvwheel_options_t *options) {
  (void)wheel;
  rival.loop = loop;
  rival.max_timers = options->max_timers;
  return 0;
}

static void on_uv_timer(uv_timer_t *timer) {
  on_rival_expired((rival_timer_t *)timer);
}

/* A timer with a second chance is lazy: a refresh only stores when it is due,
 * and it starts again for what is left. When it expires it waits a little
 * longer, once. Data that waited in the socket while the loop was held up is
 * read in that time. */
static void on_lazy_timer(uv_timer_t *uv) {
  rival_timer_t *timer = (rival_timer_t *)uv;
  uint64_t now_ms = uv_now(uv->loop);
  int is_due = timer->due_ms <= now_ms;

  if (is_due && timer->is_last_chance) {
    on_rival_expired(timer);
    return;
  }
  timer->is_last_chance = is_due;
  uv_timer_start(uv, on_lazy_timer, is_due ? CHANCE_MS : timer->due_ms - now_ms,
                 uv_timer_get_repeat(uv));
}

/* The clock of libuv drops fractions of a millisecond, so that a uv_timer_t
 * may fire up to 1 ms early (libuv#4773): to promise "never early", as the
 * wheel does, takes one millisecond more. */
static int rival_start(rival_timer_t *timer, rival_cb cb, uint64_t timeout) {
  if (rival.max_timers != 0 && rival.timers == rival.max_timers)
    return UV_ENOBUFS; /* a wheel limits its timers itself */
  rival.timers++;
  if (kind == NONE)
    return 0;
  on_rival_expired = cb;
  uv_timer_init(rival.loop, &timer->uv);
  timer->uv.data = NULL; /* not the echo_t: it is no connection */
  if (kind == CHANCE) {
    timer->due_ms = uv_now(rival.loop) + timeout + 1;
    timer->is_last_chance = 0;
  }
  return uv_timer_start(&timer->uv,
                        kind == CHANCE ? on_lazy_timer : on_uv_timer,
                        timeout + 1, timeout + 1);
}

static void rival_refresh(rival_timer_t *timer) {
  if (kind == CHANCE)
    timer->due_ms = uv_now(rival.loop) + uv_timer_get_repeat(&timer->uv);
  else if (kind != NONE)
    uv_timer_again(&timer->uv);
}

/* echo.c closes the socket before and frees the connection in the callback of
 * that: libuv finishes what was closed last first. */
static void rival_close(rival_timer_t *timer) {
  rival.timers--;
  if (kind != NONE)
    uv_close((uv_handle_t *)&timer->uv, NULL);
}

#include "../echo.c" /* NOLINT(bugprone-suspicious-include) */

const rival_t rival_uv = {"uv", sizeof(uv_timer_t), echo_init,
                          echo_on_connection, echo_stop};

static int init_with_chances(echo_t *echo, uv_loop_t *loop, unsigned family,
                             const server_options_t *options) {
  kind = CHANCE;
  return echo_init(echo, loop, family, options);
}

const rival_t rival_chance = {"chance", sizeof(rival_timer_t),
                              init_with_chances, echo_on_connection, echo_stop};

static int init_with_none(echo_t *echo, uv_loop_t *loop, unsigned family,
                          const server_options_t *options) {
  kind = NONE;
  return echo_init(echo, loop, family, options);
}

const rival_t rival_none = {"none", 0, init_with_none, echo_on_connection,
                            echo_stop};
