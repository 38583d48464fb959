/* SPDX-License-Identifier: MIT */

/* Small worlds of a wheel on a real loop in virtual time. A move is a call, an
 * iteration of the loop after some time, whose callbacks may do something, or
 * uvwheel_fire_soonest.
 *
 * What the library knows of a thread is not part of a wheel: which wheel was
 * used last, so each operation on a timer is made both when it is this one and
 * when it is another; and by how much turns have moved the loop's time. */

#include "world_binding.h"

#include <stdio.h>
#include <string.h>

#include "virtual_time.h"

#define BEGIN_MS (UINT64_C(1) << 20)
#define TURN_MS 5
#define STALL_MS 7
#define LONG_STALL_MS 1500

world_game_t game;

uint64_t moved_ms;

/* Another wheel on the thread, to be used in between. */
static uvwheel_t other_wheel;
static uvwheel_timer_t other_timer;

/* ---- Times --------------------------------------------------------------- */

static void
set_clock_ms(uint64_t ms)
{
  game.clock_ns = ms * NS_PER_MS;
  virtual_time_set_ns(game.clock_ns);
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
  uvwheel_timer_set_repeat(after_other ? &other_timer : &game.spare, 0);
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
start_once(unsigned index, uint64_t timeout)
{
  start_timer(index, timeout == MOST ? UINT64_MAX : timeout, 0);
}

static void
start_to_repeat(unsigned index, uint64_t repeat)
{
  start_timer(index, 1, repeat);
}

static void
stop_timer(unsigned index, uint64_t unused)
{
  (void)unused;
  EXPECT(uvwheel_timer_stop(&game.timers[index]) == 0);
  if (!game.model.timers[index].active)
    return;
  game.stopped++;
  model_remove(&game.model, index);
  drawing_touch(&game.drawing, index, false);
}

static void
refresh_timer(unsigned index, uint64_t unused)
{
  const armed_t *armed = &game.armed[index];
  bool active = game.model.timers[index].active;

  (void)unused;
  EXPECT(uvwheel_timer_refresh(&game.timers[index]) ==
         (active ? 0 : UV_EINVAL));
  if (active)
    arm(index, after(armed->repeat != 0 ? armed->repeat : armed->timeout),
        false);
}

static void
again_timer(unsigned index, uint64_t unused)
{
  const armed_t *armed = &game.armed[index];
  int expected = !armed->started      ? UV_EINVAL
                 : armed->repeat == 0 ? 0
                                      : expected_of_start(index);

  (void)unused;
  EXPECT(uvwheel_timer_again(&game.timers[index]) == expected);
  if (expected == 0 && armed->repeat != 0)
    arm(index, after(armed->repeat), game.model.fifo);
}

static void
set_timer_repeat(unsigned index, uint64_t repeat)
{
  uvwheel_timer_set_repeat(&game.timers[index], repeat);
  game.armed[index].repeat = repeat;
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

/* In the order of the wheel: that of their numbers makes no difference. */
static void
refresh_other(uvwheel_timer_t *timer, void *self)
{
  if (timer != self)
    refresh_timer((unsigned)(timer - game.timers), 0);
}

static void
react(unsigned index)
{
  uint64_t tick_ms = game.model.tick_ms;
  unsigned i;

  for (i = 0; i < game.model.capacity; i++) {
    if (i == index)
      continue;
    if (game.reaction == STOP_OTHERS)
      stop_timer(i, 0);
    if (game.reaction == START_IDLE && !game.model.timers[i].active &&
        game.model.capacity <= game.max_timers)
      start_timer(i, tick_ms, 0);
  }
  if (game.reaction == REFRESH_OTHERS)
    uvwheel_walk(&game.wheel, refresh_other, &game.timers[index]);
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

/* ---- Moves: operations --------------------------------------------------- */

/* Of idle timers that are alike only the first is used. */
static bool
is_like_another(unsigned index)
{
  unsigned i;

  for (i = 0; i < index; i++)
    if (!game.model.timers[i].active && key_of_timer(i) == key_of_timer(index))
      return true;
  return false;
}

/* MOST_TIMERS and more are the timers when another wheel was used last. */
static bool
operate(void (*operation)(unsigned index, uint64_t ms), unsigned timer,
        uint64_t ms)
{
  unsigned index = timer % MOST_TIMERS;

  if (is_like_another(index))
    return false;
  begin_move(timer >= MOST_TIMERS);
  operation(index, ms);
  return end_move();
}

static bool
start(unsigned timer, uint64_t timeout)
{
  return operate(start_once, timer, timeout);
}

static bool
start_repeating(unsigned timer, uint64_t repeat)
{
  return operate(start_to_repeat, timer, repeat);
}

static bool
stop(unsigned timer, uint64_t unused)
{
  return operate(stop_timer, timer, unused);
}

static bool
refresh(unsigned timer, uint64_t unused)
{
  return operate(refresh_timer, timer, unused);
}

static bool
again(unsigned timer, uint64_t unused)
{
  return operate(again_timer, timer, unused);
}

static bool
set_repeat(unsigned timer, uint64_t repeat)
{
  return operate(set_timer_repeat, timer, repeat);
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
  uint64_t late_ms = now_ms - game.wheel.wake_ms;

  if (late_ms <= STALL_MS || game.wheel.stalls_in_row > 0)
    return 0;
  return late_ms + (late_ms < 1000 ? late_ms : 1000);
}

/* Nothing is left behind that the budget allowed; but if the clock has been set
 * back, what was left over before may wait until it is where it was. */
static void
expect_turn_done(uint64_t budget, uint64_t looked)
{
  bool blocks = game.reaction == BLOCK || game.reaction == BLOCK_UNSEEN ||
                game.reaction == SET_CLOCK_BACK;

  if (game.reaction != FIRE_SOONEST)
    EXPECT(looked <= budget);
  if (game.in_stall || (blocks && game.fired_in_move > 0) || is_rewound())
    return;
  if (looked < budget)
    EXPECT(model_earliest_ms(&game.model) > passed());
}

/* The clock was set back, and has come to where the last turn was: the wheel
 * takes that for the same pass over libuv's timers, and waits for a poll. */
static bool
is_time_of_last_turn(uint64_t now_ms)
{
  const uvwheel_t *wheel = &game.wheel;

  return uv_version() < 0x013000 &&
         now_ms - wheel->turned_ms == moved_ms - wheel->moved_ms;
}

static bool
run(unsigned reaction, uint64_t step_ms, uint64_t budget)
{
  uint64_t now_ms = clock_ms() + step_ms, set_back_ms = game.wheel.set_back_ms;
  uint64_t looked = game.wheel.core.counters.looked, expected_ms = 0;
  bool waits;

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
  }
  waits = is_time_of_last_turn(now_ms);
  (void)uv_run(&game.loop, UV_RUN_NOWAIT);
  EXPECT(game.wheel.set_back_ms - set_back_ms == expected_ms);
  if (game.in_turn && !waits)
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

static void
add_timer_moves(unsigned timer)
{
  const uint64_t tick_ms = game.model.tick_ms, round_ms = game.round_ms;

  add_move("start", start, timer, 0);
  add_move("start", start, timer, tick_ms);
  add_move("start", start, timer, round_ms + 1);
  add_move("start", start, timer, MOST);
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
      add_move("fire_soonest", fire_soonest, reaction, MOST);
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
  EXPECT(uvwheel_timer_init(&game.wheel, &game.spare) == 0);
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
  game.round_ms = world->tick_ms * world->slots;
  game.moved_ms = moved_ms;
  set_clock_ms(BEGIN_MS);
  EXPECT(uv_loop_init(&game.loop) == 0);
  open_wheels(world);
  run_once();
  add_memory(&game, offsetof(world_game_t, model.timers[MOST_TIMERS]));
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

const layer_t binding_layer = {"binding", open_binding, close_binding,
                               verify_world, key_of_world};
