/* SPDX-License-Identifier: MIT */

/* echo.c below calls these functions instead of the wheel's. Its own get other
 * names. */

#define echo_init rival_init
#define echo_on_connection rival_on_connection
#define echo_stop rival_stop
#define echo_format rival_format

#include "rivals.h"

/* gcc's analyzer does not see that echo.c inits each timer on the first wheel
 * before it does so on another one. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#pragma GCC diagnostic ignored "-Wanalyzer-use-of-uninitialized-value"
#endif

#define uvwheel_timer_t rival_timer_t
#define uvwheel_timer_init rival_timer_init
#define uvwheel_timer_expect rival_expect
#define uvwheel_timer_refresh rival_refresh
#define uvwheel_timer_stop(timer) ((void)(timer))
#define uvwheel_timer_close rival_close
#define uvwheel_init rival_open
#define uvwheel_close(wheel, cb) ((void)(wheel))
#define uvwheel_count rival_count
#define uvwheel_fire_soonest rival_fire_idlest
#define uvwheel_owns_handle(handle) ((void)(handle), 0)

typedef struct rival_timer_s rival_timer_t;
typedef void (*rival_cb)(rival_timer_t *timer);

struct rival_timer_s {
  uv_timer_t uv;
  uint64_t due_ms; /* of a second chance */
  int is_last_chance;
  rival_timer_t *prev, *next; /* used where the server sheds */
};

/* There is one server in a process. One that sheds opens two wheels; here it
 * has a list instead, the idlest first ("LRU"): who is heard goes to its end.
 */
static struct {
  uv_loop_t *loop;
  const uvwheel_t *first; /* of its wheels: all timers count as its own */
  uint64_t timers;
  int has_list;
  rival_timer_t list; /* only the links are used */
} rival;
static rival_cb on_rival_expired;
static enum { PLAIN, CHANCE, NONE } kind; /* see rivals.h */

static int rival_open(uv_loop_t *loop, const uvwheel_t *wheel,
                      const uvwheel_options_t *options) {
  (void)options;
  rival.loop = loop;
  rival.has_list = rival.first != NULL;
  if (!rival.has_list)
    rival.first = wheel;
  rival.list.prev = rival.list.next = &rival.list;
  return 0;
}

static uint64_t rival_count(const uvwheel_t *wheel) {
  return wheel == rival.first ? rival.timers : 0;
}

static void take_out(rival_timer_t *timer) {
  timer->prev->next = timer->next;
  timer->next->prev = timer->prev;
}

static void move_to_end(rival_timer_t *timer) {
  if (!rival.has_list)
    return;
  take_out(timer);
  timer->prev = rival.list.prev;
  timer->next = &rival.list;
  timer->prev->next = timer->next->prev = timer;
}

static void rival_fire_idlest(const uvwheel_t *wheel, uint64_t count) {
  (void)wheel;
  for (; count > 0 && rival.list.next != &rival.list; count--)
    on_rival_expired(rival.list.next);
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
static void rival_expect(rival_timer_t *timer, rival_cb cb, uint64_t timeout) {
  on_rival_expired = cb;
  move_to_end(timer);
  timer->due_ms = uv_now(rival.loop) + timeout + 1;
  timer->is_last_chance = 0;
  if (kind != NONE)
    uv_timer_start(&timer->uv, kind == CHANCE ? on_lazy_timer : on_uv_timer,
                   timeout + 1, timeout + 1);
}

/* echo.c does that once more for a newcomer that has spoken. */
static void rival_timer_init(const uvwheel_t *wheel, rival_timer_t *timer) {
  if (wheel != rival.first)
    return;
  rival.timers++;
  timer->prev = timer->next = timer;
  if (kind != NONE)
    uv_timer_init(rival.loop, &timer->uv);
  timer->uv.data = NULL; /* not the echo_t: it is no connection */
}

static void rival_refresh(rival_timer_t *timer) {
  move_to_end(timer);
  if (kind == CHANCE)
    timer->due_ms = uv_now(rival.loop) + uv_timer_get_repeat(&timer->uv);
  else if (kind != NONE)
    uv_timer_again(&timer->uv);
}

/* echo.c closes the socket before and frees the connection in the callback of
 * that: libuv finishes what was closed last first. */
static void rival_close(rival_timer_t *timer) {
  rival.timers--;
  take_out(timer);
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

const rival_t rival_chance = {"chance", offsetof(rival_timer_t, prev),
                              init_with_chances, echo_on_connection, echo_stop};

static int init_with_none(echo_t *echo, uv_loop_t *loop, unsigned family,
                          const server_options_t *options) {
  kind = NONE;
  return echo_init(echo, loop, family, options);
}

const rival_t rival_none = {"none", 0, init_with_none, echo_on_connection,
                            echo_stop};
