/* SPDX-License-Identifier: MIT */

/* What must hold for the wheel on its loop after each operation. */

#include "game.h"
#include "insides.h"
#include "invariants.h"
#include "older_libuv.h"
#include "p6.h"
#include "virtual_time.h"

uint64_t clock_ms(void) {
  return virtual_time_ns() / 1000000;
}

uint64_t now_ms(void) {
  return uv_now(&game.loop);
}

/* What it reports, which is 0 once it is closed. */
static uint64_t told_now_ms(void) {
  return game.state == OPEN ? now_ms() : 0;
}

bool is_rewound(void) {
  return uv_now(&game.loop) < game.rewound_to_ms;
}

/* ---- Turns --------------------------------------------------------------- */

/* Many callbacks may run before the clock is read. */
#define MAX_UNREAD 16

uint64_t no_limit(uint32_t option) {
  return option == UINT32_MAX ? UINT64_MAX : option;
}

/* A stall is noticed when the wheel runs. */
static void watch_stalls(const uvwheel_stats_t *stats) {
  uint64_t late_ms = stats->stall_sum_ms - game.stalls.sum_ms;
  const stall_t *stall = late_ms != 0 ? insides_of(game.wheel).stall : NULL;
  uint64_t until_ms = stall != NULL ? stall->ended_ms[stall->chain] : 0;
  unsigned i;

  if (note_stall(&game.stalls, stats, until_ms,
                 model_earliest_ms(&game.model)) == 0)
    return;
  require(!game.turns.in_turn && until_ms >= now_ms());
  require(is_rewound() || until_ms <= max_of(clock_ms(), now_ms()));
  require(game.in_run && late_ms > no_limit(game.options.stall_ms));
  require(stats->stall_sum_ms <= game.advanced_ns / 1000000 + 1);
  for (i = 0; i < game.model.capacity; i++)
    if (game.model.timers[i].active)
      note_silence(&game.timers[i].silence, &game.stalls,
                   game.model.timers[i].due_ms, wait_of(i));
}

static void put_back(unsigned index, uint64_t due_ms) {
  const model_timer_t *timer = &game.model.timers[index];
  armed_t *armed = &game.timers[index];

  require(game.in_run);
  require(model_tick_ms(&game.model, timer->due_ms) <= now_ms());
  verify_put_back(&armed->silence, &game.stalls, timer->due_ms, due_ms,
                  wait_of(index));
  model_postpone(&game.model, index, due_ms);
  armed->punctual = false;
}

/* The timer that fires shows its next due time, if it repeats. How late it is
 * tells for what time it was due. */
static void watch_put_backs(const uvwheel_stats_t *stats, unsigned firing) {
  unsigned i;

  for (i = 0; i < game.model.capacity; i++) {
    const model_timer_t *timer = &game.model.timers[i];
    const holder_t *holder = game.timers[i].holder;
    if (i == firing || !timer->active ||
        holder->timer.entry.due_ms == timer->due_ms)
      continue;
    put_back(i, holder->timer.entry.due_ms);
  }
  if (firing != NOBODY && stats->put_back != game.stalls.put_back)
    put_back(firing,
             now_ms() - (stats->lateness_sum_ms - game.lateness_sum_ms));
  require(stats->put_back == game.stalls.put_back);
}

void watch_turns(unsigned firing) {
  turns_t *turns = &game.turns;
  uint64_t put_back = game.stalls.put_back, cut = turns->cut;
  uvwheel_stats_t stats;

  if (game.state != OPEN)
    return;
  uvwheel_get_stats(game.wheel, &stats);
  turns->cut = stats.turns_cut;
  game.stalls.is_behind |= turns->cut != cut || turns->was_noisy;
  game.stalls.is_unclear |= is_rewound();
  watch_stalls(&stats);
  watch_put_backs(&stats, firing);
  if (stats.turns == turns->count)
    return;
  require(stats.turns == ++turns->count && game.in_run);
  require(++turns->since_poll == 1 || turns->was_rewound);
  require(turns->in_turn || stats.put_back != put_back ||
          stats.turns_cut != cut); /* something was due */
}

/* Requests that wait to be called back leave the loop not quiet, so a timer
 * waits, too. From the check to the driver none are asked for. */
void begin_turn(void) {
  bool is_noisy;

  if (game.turns.in_turn)
    return;
  game.turns.in_turn = true;
  is_noisy = game.turns.is_polled ? has_posts() : game.turns.was_noisy;
  game.turns.until_ms =
      is_noisy ? excess(clock_ms(), busy_wait_ms(game.options.tick_ms))
               : UINT64_MAX;
  game.turns.began_ms = now_ms();
  begin_callbacks();
}

/* One that ends late is a stall. */
void end_turn(void) {
  uint64_t turns = game.turns.count;
  uint64_t late_ms = excess(clock_ms(), game.turns.began_ms);

  watch_turns(NOBODY);
  if (game.turns.in_turn && late_ms > no_limit(game.options.stall_ms) &&
      !game.turns.was_rewound)
    game.turns.stalled_ms = game.stalls.sum_ms + late_ms;
  require(!game.turns.in_turn || game.turns.count == turns + 1 ||
          game.state != OPEN);
  game.turns.in_turn = false;
}

void begin_callbacks(void) {
  game.turns.begin_ns = virtual_time_ns();
  game.turns.unread = 0;
}

/* Also if the clock is behind the begin: the difference wraps. */
bool is_time_over(void) {
  uint64_t turn_ms = no_limit(game.options.turn_ms);

  return turn_ms != UINT64_MAX &&
         virtual_time_ns() - game.turns.begin_ns >= turn_ms * 1000000;
}

void count_one_callback(void) {
  game.turns.unread = is_time_over() ? game.turns.unread + 1 : 0;
  require(game.turns.unread < MAX_UNREAD);
}

/* ---- The wheel and its timers -------------------------------------------- */

/* How often the hand will pass the timer's slot in vain. */
static uint64_t rounds_left(const model_timer_t *timer) {
  uint64_t tick_ms = game.options.tick_ms, slots = 1;
  uint64_t before = timer->due_ms / tick_ms, now = told_now_ms() / tick_ms;

  while (slots < game.options.slots)
    slots *= 2;
  if (before > UINT64_MAX - 2)
    before = UINT64_MAX - 2;
  return before > now ? (before - now) / slots : 0;
}

static void verify_timer(unsigned index) {
  const armed_t *armed = &game.timers[index];
  const model_timer_t *model = &game.model.timers[index];
  const uvwheel_timer_t *timer = &armed->holder->timer;
  bool is_waiting = model->active && model->due_ms > told_now_ms();

  require(uvwheel_timer_is_active(timer) == model->active);
  if (game.state == GONE)
    return;
  if (armed->closed)
    require(uvwheel_timer_get_wheel(timer) == NULL);
  if (armed->closed)
    return;
  require(uvwheel_timer_get_wheel(timer) == game.wheel);
  require(uvwheel_timer_get_repeat(timer) == armed->repeat);
  require(uvwheel_timer_has_ref(timer) == !armed->unrefd);
  require(uvwheel_timer_get_due_in(timer) ==
          (is_waiting ? model->due_ms - told_now_ms() : 0));
  require(uvwheel_timer_get_rounds(timer) ==
          (is_waiting ? rounds_left(model) : 0));
}

static void verify_stats(void) {
  uvwheel_stats_t stats;
  uint64_t sum = 0;
  unsigned i;

  uvwheel_get_stats(game.wheel, &stats);
  for (i = 0; i < UVWHEEL_LATENESS_BUCKETS; i++)
    sum += stats.lateness[i];
  require(stats.active == game.model.count);
  require(stats.fired == game.fired + game.fired_early);
  require(stats.fired_soonest == game.fired_early);
  require(stats.stopped == game.stopped);
  require(stats.started == stats.active + stats.stopped + stats.fired);
  require(sum == game.fired);
  require(stats.lateness_sum_ms == game.lateness_sum_ms);
  require(stats.lateness_max_ms == game.lateness_max_ms);
  require(stats.turns_cut <= stats.turns && stats.turns_overrun <= stats.turns);
  require(stats.stall_max_ms <= stats.stall_sum_ms);
}

static bool keeps_loop_alive(void) {
  unsigned i;

  if (game.unrefd)
    return false;
  for (i = 0; i < game.model.capacity; i++)
    if (game.model.timers[i].active && !game.timers[i].unrefd)
      return true;
  return is_mailbox_open();
}

static void never_fires(uv_timer_t *timer) {
  require(timer == NULL);
}

/* The loop has to wake up by then to notice a stall that follows another. */
static uint64_t latest_check_in_ms(void) {
  const stalls_t *stalls = &game.stalls;
  uint64_t since_ms = excess(now_ms(), stalls->until_ms);

  if (stalls->count == 0 || stalls->is_unclear || !stalls->adds_up ||
      since_ms >= stalls->run_gives_ms)
    return UINT64_MAX;
  return now_ms() +
         max_of(2 * (uint64_t)game.options.stall_ms + 1, since_ms / 2);
}

/* When the loop has to wake up: at the first tick at which something is due,
 * or, for what the last turn left over, a millisecond later. */
static uint64_t latest_wake_up_ms(void) {
  uint64_t next_ms = uv_now(&game.loop) + 1;
  uint64_t earliest_ms = model_earliest_ms(&game.model);

  if (is_rewound() && game.rewound_to_ms > next_ms)
    next_ms = game.rewound_to_ms;
  return min_of(max_of(earliest_ms, next_ms), latest_check_in_ms());
}

/* A stall would follow one that gives time: then the wheel checks in soon, also
 * before a tick that never comes. The loop may be late for that. */
static bool may_check_in_soon(uint64_t wake_ms) {
  uint64_t end_ms = stalls_give_until_ms(&game.stalls);
  bool sleeps = wake_ms != uv_now(&game.loop);

  end_ms += max_of(2 * (uint64_t)game.options.stall_ms,
                   (end_ms - game.stalls.until_ms) / 2);
  return game.stalls.count != 0 &&
         (sleeps ? wake_ms < end_ms
                 : game.polled_ms <= game.stalls.until_ms ||
                       game.polled_ms < min_of(wake_ms, end_ms));
}

/* The loop wakes up at a tick that had something due when the wheel chose it:
 * it may have been refreshed or stopped since. A loop that does not sleep has
 * such a tick, a check-in, or a turn that was a stall behind it. The wheel
 * checks in half-way to a tick, if polls have returned. */
static void expect_reason(uint64_t wake_ms) {
  uint64_t from_ms = wake_ms != uv_now(&game.loop) ? wake_ms : 0;
  uint64_t stall_ms = game.options.stall_ms;

  require(model_has_tick(&game.model, from_ms, wake_ms) ||
          may_check_in_soon(wake_ms) ||
          (stall_ms != UINT32_MAX && from_ms == 0 &&
           game.spent_since_poll_ns / 1000000 >= stall_ms) ||
          (stall_ms != UINT32_MAX && game.has_polled &&
           model_has_tick(&game.model, from_ms + stall_ms, UINT64_MAX)));
}

/* The loop sleeps no longer than that, and is not woken up for nothing. */
static void verify_sleep(void) {
  const uint64_t long_ms = 1 << 30;
  uint64_t timeout_ms;

  require(uv_timer_start(&game.stopper, never_fires, long_ms, 0) == 0);
  timeout_ms = (uint64_t)uv_backend_timeout(&game.loop);
  require(uv_timer_stop(&game.stopper) == 0);
  if (game.model.count == 0) {
    require(timeout_ms == long_ms);
    game.model.ticks = 0;
    game.has_polled = false;
    return;
  }
  require(uv_now(&game.loop) + timeout_ms <= latest_wake_up_ms());
  if (timeout_ms < long_ms && !is_rewound())
    expect_reason(uv_now(&game.loop) + timeout_ms);
}

static void verify_wheel(void) {
  require(broken_wheel_invariants(game.wheel, stderr) == 0);
  require(uvwheel_count(game.wheel) == game.model.count);
  require(uvwheel_is_closing(game.wheel) == (game.state != OPEN));
  require(uvwheel_has_ref(game.wheel) == !game.unrefd);
  require(uvwheel_get_loop(game.wheel) == &game.loop);
  verify_stats();
}

void verify_game(void) {
  unsigned i;

  watch_turns(NOBODY);
  if (game.model.count == 0 || is_rewound())
    game.turns.stalled_ms = 0; /* it is not looked for any more */
  for (i = 0; i < game.model.capacity; i++)
    if (game.timers[i].holder != NULL)
      verify_timer(i);
    else
      require(!game.model.timers[i].active);
  if (game.state == GONE)
    return;
  verify_wheel();
  /* While a handle is closing the loop does not sleep. */
  if (game.state == OPEN && !game.in_run && !game.model.drawing &&
      game.foreign_closes == 0) {
    require((uv_loop_alive(&game.loop) != 0) == keeps_loop_alive());
    verify_sleep();
  }
}
