/* SPDX-License-Identifier: MIT */

/* Operations on the timers of a wheel on a libuv loop, also inside the
 * callbacks of any of them. So a game has what burnt the users of other timers:
 *
 * - scenario 1: a callback frees its own timer (linmo#27, libuv#180,
 *   mediasoup#214);
 * - scenario 2: it stops and frees another timer of the same tick (muduo#668,
 *   ModernUO#782, connectedhomeip#19387);
 * - scenarios 3 and 4: it restarts another one, or itself (ModernUO#705,
 *   h2o#1958);
 * - scenario 5: it starts itself anew by about a round (akka-core#1016,
 *   nebula#802, rpc-perf#180);
 * - scenario 8: the clock jumps over several rounds (agrona#73, camunda#767,
 *   tokio-core#2);
 * - scenario 9: it starts a short timer while the wheel catches up
 *   (RussellLuo/timingwheel#45, libuv#4245, #4250);
 * - scenario 10: timeouts are huge (netty#7760, haproxy#109,
 *   uWebSockets.js#1025);
 * - scenario 20: a callback stops the loop in the middle of a turn;
 * - scenario 24: it calls uvwheel_fire_soonest. */

#include <stdlib.h>
#include <string.h>

#include "game.h"
#include "p6.h"

/* A run ends after this many callbacks: some timers repeat every millisecond,
 * and some make up for each one of years. */
#define MAX_IN_RUN 400

/* ---- What the model is told ---------------------------------------------- */

static uint64_t cuts(void) {
  uvwheel_stats_t stats;

  uvwheel_get_stats(game.wheel, &stats);
  return stats.turns_cut;
}

uint64_t wait_of(unsigned index) {
  const armed_t *armed = &game.timers[index];

  return armed->repeat != 0 ? armed->repeat : armed->timeout;
}

/* The timer is due anew; in place if the wheel is to leave it where it is. One
 * that never fires is moved all the same, and a walk may miss it then. */
static void arm(unsigned index, uint64_t due_ms, bool in_place) {
  armed_t *armed = &game.timers[index];

  if (in_place)
    model_postpone(&game.model, index, due_ms);
  else
    model_put(&game.model, index, due_ms);
  if (due_ms >= CLOCK_END_MS)
    game.model.timers[index].must_visit = false;
  armed->cuts = cuts();
  armed->silence.is_measured = false;
  armed->punctual =
      uv_now(&game.loop) == clock_ms() && !is_rewound() && due_ms >= now_ms();
}

static bool is_later(unsigned index, uint64_t due_ms) {
  const model_timer_t *timer = &game.model.timers[index];

  return timer->active && due_ms >= timer->due_ms;
}

static uint64_t due_after(uint64_t delay_ms) {
  return add_saturated(now_ms(), delay_ms);
}

/* The timer measures its peer's silence, from now on. */
static void measure(unsigned index, uint64_t wait_ms) {
  game.timers[index].silence = begin_silence(&game.stalls, now_ms(), wait_ms);
}

/* A start, expect or again of the timer; with UVWHEEL_FIFO it lines up anew. It
 * is an appointment unless measure() follows. */
static void restart(unsigned index, uint64_t delay_ms) {
  uint64_t due_ms = due_after(delay_ms);

  arm(index, due_ms, is_later(index, due_ms) && !game.model.fifo);
}

/* What a start, expect or again of the timer answers. */
static int expected_of_start(unsigned index) {
  if (game.state != OPEN)
    return UV_EINVAL;
  if (!game.model.timers[index].active && game.options.max_timers != 0 &&
      game.model.count >= game.options.max_timers)
    return UV_ENOBUFS;
  return 0;
}

static int expect_start(unsigned index, uint64_t timeout, uint64_t repeat) {
  armed_t *armed = &game.timers[index];
  int expected = expected_of_start(index);

  if (expected != 0)
    return expected;
  armed->started = true;
  armed->timeout = timeout;
  armed->repeat = repeat;
  restart(index, timeout);
  return 0;
}

static int expect_refresh(unsigned index) {
  uint64_t due_ms = due_after(wait_of(index));

  if (!game.model.timers[index].active)
    return UV_EINVAL;
  arm(index, due_ms, is_later(index, due_ms));
  measure(index, wait_of(index));
  return 0;
}

static int expect_stop(unsigned index) {
  if (game.model.timers[index].active) {
    model_remove(&game.model, index);
    game.stopped++;
  }
  return game.timers[index].failed ? UV_EINVAL : 0;
}

/* The first time of the beat after `due_ms` that is not before `end_ms`. */
static uint64_t next_beat(const armed_t *armed, uint64_t due_ms,
                          uint64_t end_ms) {
  uint64_t beats = 1;

  if (end_ms > due_ms)
    beats = (end_ms - due_ms - 1) / armed->repeat + 1;
  return add_saturated(due_ms + (beats - 1) * armed->repeat, armed->repeat);
}

/* The wheel may have chosen any of them. */
static void remember_ticks(uint64_t from_ms, uint64_t to_ms) {
  for (; from_ms < to_ms && game.model.ticks <= MODEL_TICKS;
       from_ms += game.model.tick_ms)
    model_remember_tick(&game.model, from_ms);
  model_remember_tick(&game.model, to_ms);
}

/* A timer that skips what it missed is due at the first time of its beat that
 * is not before the last tick of the turn. That tick is the timer's own one, or
 * a later one up to now; uvwheel_fire_soonest takes that of now. A wheel whose
 * choice cannot be seen, because it is past, has to arm the timer anew. One
 * that fires late by more than a stall and the wait begins a new beat. */
static void arm_after_skipping(unsigned index, uint64_t due_ms) {
  const armed_t *armed = &game.timers[index];
  uint64_t last_ms = now_ms() - now_ms() % game.options.tick_ms;
  uint64_t tick_ms = model_tick_ms(&game.model, due_ms);
  uint64_t most_ms = next_beat(armed, due_ms, last_ms);
  uint64_t least_ms = next_beat(armed, due_ms, tick_ms);
  uint64_t told_ms = now_ms() + uvwheel_timer_get_due_in(&armed->holder->timer);

  if (excess(clock_ms(), tick_ms) >
      add_saturated(no_limit(game.options.stall_ms),
                    busy_wait_ms(game.options.tick_ms))) {
    last_ms = clock_ms() - clock_ms() % game.options.tick_ms;
    arm(index, add_saturated(last_ms - 1, armed->repeat), false);
  } else if (game.model.drawing || least_ms >= most_ms) {
    arm(index, most_ms, false);
  } else if (told_ms > now_ms()) {
    require(told_ms >= least_ms && told_ms <= most_ms);
    require((told_ms - due_ms) % armed->repeat == 0);
    arm(index, told_ms, false);
  } else {
    arm(index, least_ms, false);
    remember_ticks(least_ms, now_ms());
    require(uvwheel_timer_refresh(&armed->holder->timer) ==
            expect_refresh(index));
  }
}

/* A repeating timer that was due at a time fires now. */
static void arm_again(unsigned index, uint64_t due_ms) {
  const armed_t *armed = &game.timers[index];

  if (armed->missed == UVWHEEL_MISSED_SKIP)
    arm_after_skipping(index, due_ms);
  else if (armed->missed == UVWHEEL_MISSED_DELAY)
    arm(index, due_after(armed->repeat), false);
  else
    arm(index, add_saturated(due_ms, armed->repeat), false);
}

static void end_run(unsigned index) {
  uv_stop(&game.loop);
  game.timers[index].missed = UVWHEEL_MISSED_DELAY;
  require(uvwheel_timer_set_missed(&game.timers[index].holder->timer,
                                   UVWHEEL_MISSED_DELAY) == 0);
}

/* The timer's time has come. */
static void fire_in_time(unsigned index) {
  const armed_t *armed = &game.timers[index];
  uint64_t due_ms = game.model.timers[index].due_ms;

  require(game.in_run);
  verify_silence_over(&armed->silence, due_ms);
  begin_turn();
  count_one_callback();
  require(model_tick_ms(&game.model, due_ms) <= game.turns.until_ms);
  model_expire(&game.model, index, now_ms());
  require(!armed->punctual || armed->cuts != cuts() ||
          now_ms() == model_tick_ms(&game.model, due_ms));
  game.fired++;
  game.lateness_sum_ms += now_ms() - due_ms;
  game.lateness_max_ms = max_of(game.lateness_max_ms, now_ms() - due_ms);
  game.fired_in_run++;
}

static void fire_early(unsigned index) {
  unsigned ticks = game.model.ticks;

  model_take_drawn(&game.model, index);
  game.model.ticks = ticks; /* if it repeats, the wheel may wake up for them */
  game.fired_early++;
}

/* What all timers are started with. */
static void on_fire(uvwheel_timer_t *timer) {
  unsigned index = ((holder_t *)timer)->index;
  armed_t *armed = &game.timers[index];
  const uvwheel_timer_t *outer = game.called_back;
  uint64_t due_ms;

  require(game.state == OPEN && &armed->holder->timer == timer);
  watch_turns(index);
  due_ms = game.model.timers[index].due_ms;
  if (game.model.drawing)
    fire_early(index);
  else
    fire_in_time(index);
  if (armed->repeat != 0)
    arm_again(index, due_ms);
  verify_game();
  if (game.fired_in_run >= MAX_IN_RUN)
    end_run(index);
  game.called_back = timer;
  operate_inside();
  game.called_back = outer;
}

/* ---- Operations on timers ------------------------------------------------ */

/* If it fails, it leaves a timer that is all zeros. (Of that a build with
 * checks reports a start.) */
static void init_in_vain(uvwheel_timer_t *timer) {
  require(uvwheel_timer_init(game.wheel, timer) == UV_EINVAL);
  require(uvwheel_timer_stop(timer) == UV_EINVAL);
  require(uvwheel_timer_set_missed(timer, UVWHEEL_MISSED_SKIP) == UV_EINVAL);
#ifndef UVWHEEL_CHECKS
  require(uvwheel_timer_start(timer, on_fire, 1, 1) == UV_EINVAL);
  require(uvwheel_timer_expect(timer, on_fire, 1) == UV_EINVAL);
  require(uvwheel_timer_refresh(timer) == UV_EINVAL);
  require(uvwheel_timer_again(timer) == UV_EINVAL);
#endif
}

void init_timer(holder_t *holder) {
  armed_t *armed = &game.timers[holder->index];

  memset(&holder->timer, 0xA5, sizeof holder->timer);
  memset(armed, 0, sizeof *armed);
  armed->holder = holder;
  armed->closed = armed->failed = game.state != OPEN;
  if (armed->closed)
    init_in_vain(&holder->timer);
  else
    require(uvwheel_timer_init(game.wheel, &holder->timer) == 0);
}

/* A timer that uvwheel_close has stopped has to be initialised again. */
static void reopen_timer(holder_t *holder) {
  if (!game.timers[holder->index].failed) {
    require(uvwheel_timer_stop(&holder->timer) == 0);
    require(uvwheel_timer_start(&holder->timer, on_fire, 1, 1) == UV_EINVAL);
    require(uvwheel_timer_expect(&holder->timer, on_fire, 1) == UV_EINVAL);
    require(uvwheel_timer_again(&holder->timer) == UV_EINVAL);
  }
  if (game.state != GONE)
    init_timer(holder);
}

/* The timer of an index that the bytes tell; NULL if there is none that is
 * initialised. */
static uvwheel_timer_t *pick_timer(unsigned *index) {
  holder_t *holder;

  *index = (unsigned)take(&game.bytes, 2) % game.model.capacity;
  holder = game.timers[*index].holder;
  if (holder != NULL && game.timers[*index].closed)
    reopen_timer(holder);
  if (game.state == GONE)
    return NULL;
  if (holder == NULL) {
    holder = malloc(sizeof *holder);
    require(holder != NULL);
    holder->index = *index;
    init_timer(holder);
  }
  return game.timers[*index].closed ? NULL : &holder->timer;
}

static uint64_t take_repeat(void) {
  return pick(&game.bytes, 2) == 0 ? 0 : take_delay();
}

static void start_with(unsigned index, uint64_t timeout, uint64_t repeat) {
  uvwheel_timer_t *timer = &game.timers[index].holder->timer;

  require(uvwheel_timer_start(timer, on_fire, timeout, repeat) ==
          expect_start(index, timeout, repeat));
}

void start(void) {
  unsigned index;
  uvwheel_timer_t *timer = pick_timer(&index);
  uint64_t timeout;

  if (timer == NULL)
    return;
  timeout = take_delay();
  start_with(index, timeout, take_repeat());
  require(uvwheel_timer_start(timer, NULL, 1, 1) == UV_EINVAL);
}

static void expect_with(unsigned index, uint64_t timeout) {
  uvwheel_timer_t *timer = &game.timers[index].holder->timer;
  int expected = expect_start(index, timeout, 0);

  if (expected == 0)
    measure(index, timeout);
  require(uvwheel_timer_expect(timer, on_fire, timeout) == expected);
}

void expect(void) {
  unsigned index;
  uvwheel_timer_t *timer = pick_timer(&index);

  if (timer == NULL)
    return;
  expect_with(index, take_delay());
  require(uvwheel_timer_expect(timer, NULL, 1) == UV_EINVAL);
}

static void again_with(unsigned index) {
  const armed_t *armed = &game.timers[index];
  bool measures = game.model.timers[index].active && armed->silence.is_measured;
  int expected = !armed->started      ? UV_EINVAL
                 : armed->repeat == 0 ? 0
                                      : expected_of_start(index);

  require(uvwheel_timer_again(&armed->holder->timer) == expected);
  if (expected != 0 || armed->repeat == 0)
    return;
  restart(index, armed->repeat);
  if (measures)
    measure(index, armed->repeat);
}

void again(void) {
  unsigned index;

  if (pick_timer(&index) != NULL)
    again_with(index);
}

void start_many(void) {
  unsigned verb = pick(&game.bytes, 3), i;
  uint64_t timeout = take_delay(), repeat = take_repeat();

  for (i = 0; i < game.model.capacity && game.state != GONE; i++) {
    if (game.timers[i].holder == NULL || game.timers[i].closed)
      continue;
    if (verb == 0)
      again_with(i);
    else if (verb == 1)
      expect_with(i, timeout);
    else
      start_with(i, timeout, repeat);
  }
}

void stop(void) {
  unsigned index;
  uvwheel_timer_t *timer = pick_timer(&index);

  if (timer != NULL)
    require(uvwheel_timer_stop(timer) == expect_stop(index));
}

void stop_and_free(void) {
  unsigned index = (unsigned)take(&game.bytes, 2) % game.model.capacity;
  holder_t *holder = game.timers[index].holder;

  if (holder == NULL)
    return;
  require(uvwheel_timer_stop(&holder->timer) == expect_stop(index));
  memset(holder, 0x5A, sizeof *holder);
  free(holder);
  memset(&game.timers[index], 0, sizeof game.timers[index]);
}

/* In any callback, but in those of walks and its own it fires nothing. */
void fire_soonest(void) {
  uint64_t count =
      pick(&game.bytes, 4) == 1 ? UINT64_MAX : take(&game.bytes, 1);
  uint64_t before = game.fired_early, fired;

  game.drew_in_run = true;
  if (game.state == GONE)
    return;
  if (game.state != OPEN || game.model.walking || game.model.drawing) {
    require(uvwheel_fire_soonest(game.wheel, count) == 0);
    return;
  }
  (void)model_draw(&game.model, count);
  fired = uvwheel_fire_soonest(game.wheel, count);
  require(fired <= count && fired == game.fired_early - before);
  model_end_draw(&game.model, game.state != OPEN);
  /* A repeat that has become due meanwhile is armed only now. */
  game.was_due |= model_earliest_ms(&game.model) <= uv_now(&game.loop);
}

void refresh(void) {
  unsigned index;
  uvwheel_timer_t *timer = pick_timer(&index);

#ifdef UVWHEEL_CHECKS /* which reports an idle timer in its own callback */
  if (timer == game.called_back && !uvwheel_timer_is_active(timer))
    return;
#endif
  if (timer != NULL)
    require(uvwheel_timer_refresh(timer) == expect_refresh(index));
}

/* What a stall may give follows from the new repeat, unless that is the same.
 */
void set_repeat(void) {
  unsigned index;
  uvwheel_timer_t *timer = pick_timer(&index);
  bool is_same = pick(&game.bytes, 2) == 1;
  uint64_t repeat = take_repeat(), wait_ms = wait_of(index);

  if (timer == NULL)
    return;
  repeat = is_same ? wait_ms : repeat;
  uvwheel_timer_set_repeat(timer, repeat);
  game.timers[index].repeat = repeat;
  game.timers[index].silence.is_unclear |= wait_of(index) != wait_ms;
}

void set_missed(void) {
  unsigned index;
  uvwheel_timer_t *timer = pick_timer(&index);
  uvwheel_missed_t missed = (uvwheel_missed_t)pick(&game.bytes, 3);

  if (timer == NULL)
    return;
  game.timers[index].missed = missed;
  require(uvwheel_timer_set_missed(timer, missed) == 0);
  missed = (uvwheel_missed_t)(UVWHEEL_MISSED_BURST + 1);
  require(uvwheel_timer_set_missed(timer, missed) == UV_EINVAL);
}

void set_timer_ref(void) {
  unsigned index;
  uvwheel_timer_t *timer = pick_timer(&index);

  if (timer == NULL)
    return;
  game.timers[index].unrefd = pick(&game.bytes, 2);
  if (game.timers[index].unrefd)
    uvwheel_timer_unref(timer);
  else
    uvwheel_timer_ref(timer);
}

void init_again(void) {
  unsigned index;

  if (pick_timer(&index) != NULL && !game.model.timers[index].active)
    init_timer(game.timers[index].holder);
}
