/* SPDX-License-Identifier: MIT */

/* Small worlds of a wheel on a real loop in virtual time. A move is a call, an
 * iteration of the loop after some time, whose callbacks may do something, or
 * uvwheel_fire_soonest.
 *
 * What the library knows of a thread is not part of a wheel: which wheel was
 * used last, so each operation on a timer is made both when it is this one and
 * when it is another; and by how much turns have moved the loop's time. */

#include <stdio.h>
#include <string.h>

#include "binding.h"
#include "explore.h"
#include "virtual_time.h"

#define BEGIN_MS (UINT64_C(1) << 20)
#define FOR_EVER UINT64_MAX
#define NS_PER_MS 1000000u
#define TURN_MS 5
#define STALL_MS 7
#define LONG_STALL_MS 1500

/* What callbacks do. */
typedef enum reaction_e {
  NOTHING,
  RESTART_SELF,   /* at once                                               */
  STOP_OTHERS,    /*                                                       */
  REFRESH_OTHERS, /*                                                       */
  START_IDLE,     /* all that are, for a tick                              */
  FIRE_SOONEST,   /* one more, in which callbacks do nothing               */
  BLOCK,          /* for more than a tick, and the loop sees it            */
  BLOCK_UNSEEN,   /* for longer than a turn, and the loop does not know yet */
  SET_CLOCK_BACK, /* by a round, and the loop sees it                      */
  REACTIONS
} reaction_t;

typedef struct armed_s {
  bool started; /* ever */
  uint64_t timeout;
  uint64_t repeat;
} armed_t;

static struct game_s {
  uv_loop_t loop;
  uvwheel_t wheel;
  uvwheel_timer_t timers[MOST_TIMERS];
  armed_t armed[MOST_TIMERS];
  uint64_t round_ms;
  uint64_t max_timers;
  uvwheel_missed_t missed; /* of all timers */
  uint64_t clock_ns;
  uint64_t moved_ms;      /* by so much turns had moved the loop's time */
  uint64_t rewound_to_ms; /* the clock was set back; it had been this   */
  drawing_t drawing;
  reaction_t reaction;
  bool in_turn;
  bool in_stall; /* nothing may fire */
  uint64_t fired_in_move;
  uint64_t fired;
  uint64_t fired_early;
  uint64_t stopped;
  uint64_t lateness_max_ms;
  model_t model; /* the last one, as most of it is not used */
} game;

/* Another wheel on the thread, to be used in between. */
static uvwheel_t other_wheel;
static uvwheel_timer_t other_timer;

/* By so much turns have moved the loop's time on this thread, in all moves that
 * were ever made. */
static uint64_t moved_ms;

/* ---- Times --------------------------------------------------------------- */

static uint64_t
loop_ms(void)
{
  return uv_now(&game.loop);
}

static uint64_t
passed(void)
{
  return uvwheel_now(&game.wheel) - game.wheel.lag_ms;
}

static uint64_t
after(uint64_t delay_ms)
{
  return add_saturated(uvwheel_now(&game.wheel), delay_ms);
}

static void
set_clock_ms(uint64_t ms)
{
  game.clock_ns = ms * NS_PER_MS;
  virtual_time_set_ns(game.clock_ns);
}

static uint64_t
clock_ms(void)
{
  return game.clock_ns / NS_PER_MS;
}

static void
update_time(void)
{
  uint64_t before_ms = loop_ms();

  uv_update_time(&game.loop);
  if (game.in_turn)
    moved_ms += loop_ms() - before_ms;
}

static void
set_clock_back(uint64_t step_ms)
{
  if (game.rewound_to_ms <= loop_ms())
    game.rewound_to_ms = loop_ms() + 1;
  set_clock_ms(clock_ms() - step_ms);
  update_time();
}

/* The library goes on from where it was in the last move that led here. */
static void
begin_move(bool after_other)
{
  virtual_time_set_ns(game.clock_ns);
  game.wheel.moved_ms += moved_ms - game.moved_ms;
  game.moved_ms = moved_ms;
  game.fired_in_move = 0;
  uvwheel_timer_set_repeat(after_other ? &other_timer : &game.timers[0],
                           after_other ? 0 : game.armed[0].repeat);
}

static bool
end_move(void)
{
  game.moved_ms = moved_ms;
  return true;
}

/* ---- Operations on timers ------------------------------------------------ */

static void on_fire(uvwheel_timer_t *timer);

static void
arm(unsigned index, uint64_t due_ms, bool lines_up)
{
  const model_timer_t *timer = &game.model.timers[index];
  bool stays = timer->active && due_ms >= timer->due_ms && !lines_up;

  if (stays)
    model_postpone(&game.model, index, due_ms);
  else
    model_put(&game.model, index, due_ms);
  drawing_touch(&game.drawing, index, stays);
}

static int
expected_of_start(unsigned index)
{
  bool has_room =
      game.model.timers[index].active || game.model.count < game.max_timers;

  return has_room ? 0 : UV_ENOBUFS;
}

static void
start_timer(unsigned index, uint64_t timeout, uint64_t repeat)
{
  armed_t *armed = &game.armed[index];
  int expected = expected_of_start(index);

  EXPECT(uvwheel_timer_start(&game.timers[index], on_fire, timeout, repeat) ==
         expected);
  if (expected != 0)
    return;
  armed->started = true;
  armed->timeout = timeout;
  armed->repeat = repeat;
  arm(index, after(timeout), game.model.fifo);
}

static void
stop_timer(unsigned index)
{
  EXPECT(uvwheel_timer_stop(&game.timers[index]) == 0);
  if (!game.model.timers[index].active)
    return;
  game.stopped++;
  model_remove(&game.model, index);
  drawing_touch(&game.drawing, index, false);
}

static void
refresh_timer(unsigned index)
{
  const armed_t *armed = &game.armed[index];
  bool active = game.model.timers[index].active;

  EXPECT(uvwheel_timer_refresh(&game.timers[index]) ==
         (active ? 0 : UV_EINVAL));
  if (active)
    arm(index, after(armed->repeat != 0 ? armed->repeat : armed->timeout),
        false);
}

static void
again_timer(unsigned index)
{
  const armed_t *armed = &game.armed[index];
  int expected = !armed->started      ? UV_EINVAL
                 : armed->repeat == 0 ? 0
                                      : expected_of_start(index);

  EXPECT(uvwheel_timer_again(&game.timers[index]) == expected);
  if (expected == 0 && armed->repeat != 0)
    arm(index, after(armed->repeat), game.model.fifo);
}

/* ---- Callbacks ----------------------------------------------------------- */

/* When a repeating timer that was due at a time and fires now is due again. */
static uint64_t
due_again(uint64_t due_ms, uint64_t repeat)
{
  if (game.missed == UVWHEEL_MISSED_DELAY)
    return after(repeat);
  do
    due_ms += repeat;
  while (game.missed == UVWHEEL_MISSED_SKIP && due_ms < after(0));
  return due_ms;
}

static void fire_soonest_of(uint64_t count);

static void
react(unsigned index)
{
  uint64_t tick_ms = game.model.tick_ms;
  unsigned i;

  for (i = 0; i < game.model.capacity; i++) {
    if (i == index)
      continue;
    if (game.reaction == STOP_OTHERS)
      stop_timer(i);
    if (game.reaction == REFRESH_OTHERS)
      refresh_timer(i);
    if (game.reaction == START_IDLE && !game.model.timers[i].active)
      start_timer(i, tick_ms, 0);
  }
  if (game.reaction == RESTART_SELF)
    start_timer(index, 0, 0);
  if (game.reaction == FIRE_SOONEST && !game.drawing.going_on)
    fire_soonest_of(1);
  if (game.reaction == BLOCK || game.reaction == BLOCK_UNSEEN)
    set_clock_ms(clock_ms() +
                 (game.reaction == BLOCK ? tick_ms + 1 : TURN_MS + 1));
  if (game.reaction == BLOCK)
    update_time();
  if (game.reaction == SET_CLOCK_BACK && !game.drawing.going_on)
    set_clock_back(game.round_ms);
}

static void
count_lateness(uint64_t due_ms)
{
  uint64_t late_ms = passed() - model_tick_ms(&game.model, due_ms);

  if (late_ms > game.lateness_max_ms)
    game.lateness_max_ms = late_ms;
}

static void
on_fire(uvwheel_timer_t *timer)
{
  unsigned index = (unsigned)(timer - game.timers);
  uint64_t due_ms = game.model.timers[index].due_ms;

  EXPECT(index < game.model.capacity);
  EXPECT(!game.in_stall);
  if (game.drawing.going_on) {
    drawing_take(&game.drawing, &game.model, index);
    game.fired_early++;
  } else {
    EXPECT(game.in_turn);
    model_expire(&game.model, index, passed());
    count_lateness(due_ms);
  }
  game.fired_in_move++;
  game.fired++;
  if (game.armed[index].repeat != 0)
    arm(index, due_again(due_ms, game.armed[index].repeat), true);
  EXPECT(uvwheel_timer_is_active(timer) == game.model.timers[index].active);
  EXPECT(uvwheel_check(&game.wheel, stderr) == 0);
  react(index);
}

/* ---- What must hold after each move -------------------------------------- */

static void
verify_timer(unsigned index)
{
  const model_timer_t *model = &game.model.timers[index];
  const uvwheel_timer_t *timer = &game.timers[index];
  uint64_t now_ms = after(0), tick_ms = game.model.tick_ms;
  uint64_t left_ms = model->due_ms > now_ms ? model->due_ms - now_ms : 0;

  EXPECT(uvwheel_timer_is_active(timer) == model->active);
  EXPECT(uvwheel_timer_get_repeat(timer) == game.armed[index].repeat);
  EXPECT(uvwheel_timer_get_due_in(timer) == (model->active ? left_ms : 0));
  if (model->active && model->due_ms < CLOCK_END_MS)
    EXPECT(uvwheel_timer_get_rounds(timer) ==
           ((now_ms + left_ms) / tick_ms - now_ms / tick_ms) * tick_ms /
               game.round_ms);
}

/* The loop wakes up in time: at the first tick at which something is due; or a
 * millisecond later for what is left over, or when the clock has come to where
 * it has been. */
static void
verify_driver(void)
{
  const uv_timer_t *driver = &game.wheel.driver;
  uint64_t earliest_ms = model_earliest_ms(&game.model);
  uint64_t latest_ms = loop_ms() + 1;

  EXPECT((uv_is_active((const uv_handle_t *)driver) != 0) ==
         (game.model.count > 0));
  if (game.model.count == 0 || earliest_ms == UINT64_MAX)
    return;
  earliest_ms += loop_ms() - passed();
  latest_ms = earliest_ms > latest_ms ? earliest_ms : latest_ms;
  EXPECT(driver->timeout <= latest_ms || driver->timeout <= game.rewound_to_ms);
}

static void
verify_stats(void)
{
  uvwheel_stats_t stats;
  uint64_t sum = 0;
  unsigned i;

  uvwheel_get_stats(&game.wheel, &stats);
  for (i = 0; i < UVWHEEL_LATENESS_BUCKETS; i++)
    sum += stats.lateness[i];
  EXPECT(stats.active == game.model.count);
  EXPECT(stats.fired == game.fired);
  EXPECT(stats.fired_early == game.fired_early);
  EXPECT(stats.stopped == game.stopped);
  EXPECT(stats.started == stats.active + stats.stopped + stats.fired);
  EXPECT(sum == game.fired - game.fired_early);
  EXPECT(stats.lateness_max_ms == game.lateness_max_ms);
}

static void
verify(void)
{
  unsigned i;

  for (i = 0; i < game.model.capacity; i++)
    verify_timer(i);
  EXPECT(uvwheel_check(&game.wheel, stderr) == 0);
  EXPECT(uvwheel_count(&game.wheel) == game.model.count);
  verify_stats();
  verify_driver();
}

/* ---- Moves: operations --------------------------------------------------- */

/* The timer may also be told when another wheel has been used last. */
static unsigned
begin_with(unsigned timer)
{
  begin_move(timer >= MOST_TIMERS);
  return timer % MOST_TIMERS;
}

static bool
start(unsigned timer, uint64_t timeout)
{
  start_timer(begin_with(timer), timeout, 0);
  return end_move();
}

static bool
start_repeating(unsigned timer, uint64_t repeat)
{
  start_timer(begin_with(timer), 1, repeat);
  return end_move();
}

static bool
stop(unsigned timer, uint64_t unused)
{
  (void)unused;
  stop_timer(begin_with(timer));
  return end_move();
}

static bool
refresh(unsigned timer, uint64_t unused)
{
  (void)unused;
  refresh_timer(begin_with(timer));
  return end_move();
}

static bool
again(unsigned timer, uint64_t unused)
{
  (void)unused;
  again_timer(begin_with(timer));
  return end_move();
}

static bool
set_repeat(unsigned timer, uint64_t repeat)
{
  unsigned index = begin_with(timer);

  uvwheel_timer_set_repeat(&game.timers[index], repeat);
  game.armed[index].repeat = repeat;
  return end_move();
}

/* ---- Moves: the clock and the loop --------------------------------------- */

/* Nothing is far ahead yet. */
static bool
may_step_back(void)
{
  unsigned i;

  for (i = 0; i < game.model.capacity; i++) {
    const model_timer_t *timer = &game.model.timers[i];
    if (timer->active && timer->due_ms < CLOCK_END_MS &&
        timer->due_ms > after(3 * game.round_ms))
      return false;
  }
  return game.wheel.core.hand * game.model.tick_ms <= after(game.round_ms);
}

static bool
step_back(unsigned unused, uint64_t step_ms)
{
  (void)unused;
  if (!may_step_back())
    return false;
  begin_move(false);
  set_clock_back(step_ms);
  return end_move();
}

/* The loop's time goes on, and its timers do not run yet. */
static bool
advance(unsigned unused, uint64_t step_ms)
{
  (void)unused;
  if (game.model.count == 0 || clock_ms() > game.wheel.wake_ms + STALL_MS)
    return false;
  begin_move(false);
  set_clock_ms(clock_ms() + step_ms);
  update_time();
  return end_move();
}

/* What a turn at that time does to the wheel's clock, unless it is on time. */
static uint64_t
set_back_of_turn(uint64_t now_ms)
{
  uint64_t late_ms = now_ms - game.wheel.driver.timeout;

  if (late_ms <= STALL_MS || game.wheel.stalls_in_row > 0)
    return 0;
  return late_ms + (late_ms < 1000 ? late_ms : 1000);
}

static void
expect_turn_done(uint64_t budget, uint64_t looked)
{
  bool blocks = game.reaction == BLOCK || game.reaction == BLOCK_UNSEEN ||
                game.reaction == SET_CLOCK_BACK;

  if (game.reaction != FIRE_SOONEST)
    EXPECT(looked <= budget);
  if (game.in_stall || (blocks && game.fired_in_move > 0))
    return;
  if (looked < budget)
    EXPECT(model_earliest_ms(&game.model) > passed());
}

static bool
run(unsigned reaction, uint64_t step_ms, uint64_t budget)
{
  uint64_t now_ms = clock_ms() + step_ms, set_back_ms = game.wheel.set_back_ms;
  uint64_t looked = game.wheel.core.counters.looked, expected_ms = 0;

  if (game.model.count == 0 || (step_ms > STALL_MS && !may_step_back()))
    return false;
  begin_move(false);
  game.reaction = (reaction_t)reaction;
  game.wheel.turn_budget = budget;
  set_clock_ms(now_ms);
  game.in_turn = game.wheel.driver.timeout <= now_ms;
  if (game.in_turn) {
    expected_ms = set_back_of_turn(now_ms);
    game.in_stall = expected_ms > 0;
    model_turn(&game.model, now_ms - set_back_ms - game.wheel.lag_ms);
  }
  (void)uv_run(&game.loop, UV_RUN_NOWAIT);
  EXPECT(game.wheel.set_back_ms - set_back_ms == expected_ms);
  if (game.in_turn)
    expect_turn_done(budget, game.wheel.core.counters.looked - looked);
  EXPECT(game.in_turn || game.fired_in_move == 0);
  game.in_turn = false;
  game.in_stall = false;
  game.reaction = NOTHING;
  return end_move();
}

static bool
run_turn(unsigned reaction, uint64_t step_ms)
{
  return run(reaction, step_ms, UINT64_MAX);
}

static bool
run_turn_of_1(unsigned reaction, uint64_t step_ms)
{
  return run(reaction, step_ms, 1);
}

/* ---- Moves: before their time -------------------------------------------- */

static void
fire_soonest_of(uint64_t count)
{
  uint64_t due = 0, fired = game.fired, answer;
  bool exact;
  unsigned i;

  for (i = 0; i < game.model.capacity; i++)
    due += game.model.timers[i].active &&
           model_tick_ms(&game.model, game.model.timers[i].due_ms) < UINT64_MAX;
  model_turn(&game.model, passed());
  drawing_begin(&game.drawing, &game.model, count, due < count ? due : count);
  answer = uvwheel_fire_soonest(&game.wheel, count);
  exact = game.drawing.exact;
  drawing_end(&game.drawing);
  EXPECT(answer == game.fired - fired);
  EXPECT(exact ? answer == (due < count ? due : count) : answer <= count);
}

static bool
fire_soonest(unsigned reaction, uint64_t count)
{
  if (game.model.count == 0)
    return false;
  begin_move(false);
  game.reaction = (reaction_t)reaction;
  fire_soonest_of(count);
  game.reaction = NOTHING;
  return end_move();
}

/* ---- The world ----------------------------------------------------------- */

static uint64_t
key_of_timer(unsigned index)
{
  const uvwheel_timer_t *timer = &game.timers[index];
  uint64_t key = mix(1, timer->home & HOME_FLAGS);

  key = mix(key, timer->interval);
  key = mix(key, timer->timeout);
  key = mix(key, timer->cb != NULL);
  key = mix(key, game.armed[index].timeout);
  key = mix(key, game.armed[index].repeat);
  return mix(key, game.model.timers[index].active);
}

static uint64_t
key_of_entry(const uvwheel_entry_t *entry)
{
  const uvwheel_timer_t *timer = CONTAINER_OF(entry, uvwheel_timer_t, entry);
  unsigned index = (unsigned)(timer - game.timers);

  return mix(key_of_timer(index), key_of_place(&game.model, index));
}

static uint64_t
key_of_driver(void)
{
  const uvwheel_t *wheel = &game.wheel;
  uint64_t key = uv_is_active((const uv_handle_t *)&wheel->driver);

  if (key != 0) {
    key = mix(key, seen_from(loop_ms(), wheel->driver.timeout));
    key = mix(key, seen_from(loop_ms(), wheel->wake_ms));
  }
  key = mix(key, loop_ms() - wheel->turned_ms == moved_ms - wheel->moved_ms);
  key = mix(key, wheel->flags);
  key = mix(key, wheel->stalls_in_row);
  return mix(key, wheel->ask_every);
}

static uint64_t
key(void)
{
  uint64_t value = key_of_core(&game.wheel.core, after(0), key_of_entry);
  uint64_t idle = 0;
  unsigned i;

  for (i = 0; i < game.model.capacity; i++)
    if (!game.model.timers[i].active)
      idle += key_of_timer(i); /* in no order */
  value = mix(value, idle);
  value = mix(value, key_of_driver());
  value = mix(value, clock_ms() - loop_ms());
  if (game.rewound_to_ms > loop_ms())
    value = mix(value, game.rewound_to_ms - loop_ms());
  if (game.model.fifo)
    value = mix(value, seen_from(after(0), game.model.reached_ms));
  return value;
}

static void
add_timer_moves(unsigned timer)
{
  const uint64_t tick_ms = game.model.tick_ms, round_ms = game.round_ms;

  add_move("start", start, timer, 0);
  add_move("start", start, timer, tick_ms);
  add_move("start", start, timer, round_ms + 1);
  add_move("start", start, timer, FOR_EVER);
  add_move("start_repeating", start_repeating, timer, 1);
  add_move("start_repeating", start_repeating, timer, tick_ms);
  add_move("start_repeating", start_repeating, timer, round_ms + 1);
  add_move("stop", stop, timer, 0);
  add_move("refresh", refresh, timer, 0);
  add_move("again", again, timer, 0);
  add_move("set_repeat", set_repeat, timer, 0);
  add_move("set_repeat", set_repeat, timer, 1);
}

static void
add_runs(void)
{
  const uint64_t tick_ms = game.model.tick_ms, far_ms = game.round_ms + 1;
  unsigned reaction;

  add_move("run", run_turn, NOTHING, 0);
  add_move("run", run_turn, NOTHING, 1);
  add_move("run", run_turn, NOTHING, STALL_MS + 1);
  add_move("run", run_turn, NOTHING, LONG_STALL_MS);
  add_move("run_of_1", run_turn_of_1, NOTHING, 0);
  for (reaction = NOTHING; reaction < REACTIONS; reaction++) {
    add_move("run", run_turn, reaction, tick_ms);
    add_move("run", run_turn, reaction, far_ms);
    add_move("run_of_1", run_turn_of_1, reaction, far_ms);
    if (reaction < FIRE_SOONEST) {
      add_move("fire_soonest", fire_soonest, reaction, 1);
      add_move("fire_soonest", fire_soonest, reaction, UINT64_MAX);
    }
  }
}

static void
add_moves(void)
{
  unsigned i;

  for (i = 0; i < game.model.capacity; i++) {
    add_timer_moves(i);
    add_timer_moves(i + MOST_TIMERS);
  }
  add_runs();
  add_move("advance", advance, 0, game.model.tick_ms + 1);
  add_move("advance", advance, 0, STALL_MS + 1);
  add_move("step_back", step_back, 0, 1);
  add_move("step_back", step_back, 0, game.round_ms);
}

static void
open_wheels(const world_t *world)
{
  uvwheel_options_t options = {0};
  unsigned i;

  EXPECT(uvwheel_init(&game.loop, &other_wheel, NULL) == 0);
  EXPECT(uvwheel_timer_init(&other_wheel, &other_timer) == 0);
  options.tick_ms = world->tick_ms;
  options.slots = world->slots;
  options.flags = world->flags;
  options.turn_ms = TURN_MS;
  options.stall_ms = STALL_MS;
  options.max_timers = world->variant == 2 ? world->timers - UINT64_C(1) : 0;
  EXPECT(uvwheel_init(&game.loop, &game.wheel, &options) == 0);
  game.wheel.lag_ms = world->variant == 1; /* whatever this machine has */
  game.max_timers = options.max_timers != 0 ? options.max_timers : UINT64_MAX;
  game.missed = (uvwheel_missed_t)world->variant;
  for (i = 0; i < MOST_TIMERS; i++) {
    EXPECT(uvwheel_timer_init(&game.wheel, &game.timers[i]) == 0);
    EXPECT(uvwheel_timer_set_missed(&game.timers[i], game.missed) == 0);
  }
}

/* A loop that has polled has told the kernel what it waits for. */
static void
run_once(void)
{
  EXPECT(uvwheel_timer_start(&other_timer, on_fire, 0, 0) == 0);
  (void)uv_run(&game.loop, UV_RUN_NOWAIT);
  EXPECT(uvwheel_timer_stop(&other_timer) == 0);
}

static void
open_binding(const world_t *world)
{
  memset(&game, 0, sizeof game);
  game.model.tick_ms = world->tick_ms;
  game.model.fifo = world->flags & UVWHEEL_FIFO;
  game.model.capacity = world->timers;
  game.model.reached_ms = BEGIN_MS;
  game.round_ms = world->tick_ms * world->slots;
  game.moved_ms = moved_ms;
  set_clock_ms(BEGIN_MS);
  EXPECT(uv_loop_init(&game.loop) == 0);
  open_wheels(world);
  run_once();
  add_memory(&game, offsetof(struct game_s, model.timers[MOST_TIMERS]));
  add_slots(&game.wheel.core);
  add_moves();
}

static void
close_binding(void)
{
  uvwheel_close(&game.wheel, NULL);
  uvwheel_close(&other_wheel, NULL);
  (void)uv_run(&game.loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(&game.loop) == 0);
}

const layer_t binding_layer = {"binding", open_binding, close_binding, verify,
                               key};
