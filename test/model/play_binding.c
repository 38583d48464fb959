/* SPDX-License-Identifier: MIT */

/* Operations on a wheel on a libuv loop in virtual time. */

#include <stdlib.h>
#include <string.h>

#include "game.h"
#include "virtual_time.h"

#define DEEPEST 3
#define START_MS UINT64_C(1000037)
/* libuv counts nanoseconds, which 64 bits do for 584 years. */
#define LONGEST_MS (UINT64_C(1) << 36)
#define LATEST_MS (UINT64_C(1) << 43)

binding_game_t game;

static void operate(void);

void operate_inside(void) {
  while (game.depth < DEEPEST && pick(&game.bytes, 3) == 1)
    operate();
}

uint64_t take_delay(void) {
  uint64_t delay_ms =
      take_delay_ms(&game.bytes, game.model.tick_ms, game.options.slots);

  return delay_ms >> 63 != 0 ? UINT64_MAX : delay_ms; /* others are misuse */
}

/* ---- Callbacks ----------------------------------------------------------- */

static void on_closed(uvwheel_t *wheel) {
  require(wheel == game.wheel && game.state == CLOSING);
  verify_no_posts();
  memset(&game.mail, 0, sizeof game.mail);
  game.state = GONE;
  memset(wheel, 0x5A, sizeof *wheel);
  free(wheel);
}

static void on_visit(uvwheel_timer_t *timer, void *arg) {
  require(arg == &game && (game.state == OPEN || game.state == FOREIGN));
  verify_game();
  model_walk_visit(&game.model, ((holder_t *)timer)->index);
  operate_inside();
}

static void on_stopper(uv_timer_t *timer) {
  uv_stop(timer->loop);
}

/* ---- The clock and the loop ---------------------------------------------- */

/* Inside a callback no more than libuv, whose clock stands still meanwhile, can
 * sleep too long in one poll. */
static uint64_t take_step_ms(void) {
  uint64_t step_ms = take_delay();
  uint64_t longest_ms = game.in_run ? INT32_MAX / 2 : LONGEST_MS;

  return step_ms < longest_ms ? step_ms : longest_ms;
}

/* The loop sees it when it runs or updates its time. Inside a callback it makes
 * the loop, which sleeps from the time that it cached, late for all timers. */
static void advance_ns(uint64_t step_ns) {
  unsigned i;

  virtual_time_advance_ns(step_ns);
  game.advanced_ns += step_ns;
  game.spent_in_run_ns += step_ns;
  game.spent_since_poll_ns += game.in_run ? step_ns : 0;
  for (i = 0; i < game.model.capacity; i++)
    if (game.in_run ||
        model_tick_ms(&game.model, game.model.timers[i].due_ms) < clock_ms())
      game.timers[i].punctual = false;
}

void advance(void) {
  uint64_t step_ms = take_step_ms();

  if (clock_ms() + step_ms < LATEST_MS)
    advance_ns(step_ms * 1000000 + (uint64_t)pick(&game.bytes, 4) * 333333);
}

/* The loop sees it at once: libuv itself sleeps too long otherwise. Its timers,
 * that of the wheel among them, stay armed for the time that was before. */
void step_back(void) {
  uint64_t step_ms = take_step_ms();
  unsigned i;

  if (step_ms >= clock_ms())
    return;
  game.rewound_to_ms = max_of(game.rewound_to_ms, clock_ms() + 1);
  game.turns.was_rewound = true;
  game.stalls.is_unclear = true;
  game.polled_ms = min_of(game.polled_ms, clock_ms() - step_ms);
  virtual_time_set_ns(virtual_time_ns() - step_ms * 1000000);
  uv_update_time(&game.loop);
  for (i = 0; i < game.model.capacity; i++) {
    game.timers[i].punctual = false;
    game.timers[i].silence.is_unclear = true;
  }
}

void update_time(void) {
  uv_update_time(&game.loop);
}

/* What a callback that is slow takes: as long as turns may, more or less. */
void be_slow(void) {
  advance_ns((uint64_t)pick(&game.bytes, 64) * 250000);
}

/* Inside callbacks and walks no loop runs. */
static bool is_inside(void) {
  return game.in_run || game.model.walking || game.model.drawing;
}

/* What takes from the budgets of turns. */
static uint64_t count_used(const uvwheel_stats_t *stats) {
  return stats->fired + stats->examined + stats->rescheduled + stats->put_back;
}

/* By how much the loop comes late to a tick; 0 if that is no stall. (Nothing
 * else is due, and no request may stop the timer before. The wheel ran last at
 * a time that the clock may have stepped back from.) */
static uint64_t least_stall_ms(void) {
  uint64_t earliest_ms =
      max_of(model_earliest_ms(&game.model), game.rewound_to_ms);
  uint64_t late_ms = excess(clock_ms(), earliest_ms);
  bool is_noticed = game.state == OPEN && !game.was_due &&
                    game.mail.count == 0 && !is_rewound() &&
                    uv_loop_alive(&game.loop);

  return is_noticed && late_ms > no_limit(game.options.stall_ms) ? late_ms : 0;
}

static void run(uv_run_mode mode) {
  uvwheel_stats_t stats;
  uint64_t stalled_ms = game.stalls.sum_ms + least_stall_ms();

  if (is_inside())
    return;
  uvwheel_get_stats(game.state == GONE ? NULL : game.wheel, &stats);
  game.used = game.used_before_run;
  game.used_before_run = count_used(&stats);
  game.in_run = true;
  game.fired_in_run = game.polls_in_run = 0;
  game.spent_in_run_ns = 0;
  game.drew_in_run = false;
  uv_run(&game.loop, mode);
  end_turn();
  game.in_run = false;
  require(game.stalls.sum_ms >= stalled_ms || game.state != OPEN);
  game.was_due = model_earliest_ms(&game.model) <= clock_ms() ||
                 uv_now(&game.loop) < clock_ms();
}

/* One iteration: each turn fires no more than the budget, and only that, the
 * turn's time, or a clock that steps back cuts it. (Its check may have used the
 * budget in the iteration before.) Returns whether nothing has kept the turns
 * from firing all that is due: a limit, a stall, or requests that wait. */
static bool run_iteration(void) {
  uint64_t turn_ns = game.options.turn_ms * UINT64_C(1000000);
  uint64_t budget = game.options.turn_budget;
  uint64_t rewound_to_ms = game.rewound_to_ms;
  uvwheel_stats_t before, after;

  uvwheel_get_stats(game.wheel, &before);
  run(UV_RUN_NOWAIT);
  if (game.state != OPEN)
    return false;
  uvwheel_get_stats(game.wheel, &after);
  require(game.drew_in_run ||
          after.fired - before.fired <= budget * (after.turns - before.turns));
  /* The driver, the check and a turn examine that many. */
  require(game.drew_in_run || after.examined - before.examined <= 3 * budget);
  if (after.turns_cut != before.turns_cut)
    require(count_used(&after) >= game.used + budget ||
            game.spent_in_run_ns >= turn_ns ||
            game.rewound_to_ms != rewound_to_ms || game.turns.was_rewound);
  return after.turns_cut == before.turns_cut &&
         after.stall_sum_ms == before.stall_sum_ms && game.mail.count == 0;
}

/* With libuv since 1.45 the poll that follows its timers is in the next one. */
void run_turn(void) {
  uint64_t began_ms, rewound_to_ms = game.rewound_to_ms;

  if (is_inside() || game.state != OPEN || is_rewound())
    return;
  advance_ns(1000000);
  began_ms = clock_ms();
  if (!uv_loop_alive(&game.loop) || !run_iteration() ||
      !uv_loop_alive(&game.loop) || !run_iteration() ||
      game.rewound_to_ms != rewound_to_ms)
    return;
  require(model_earliest_ms(&game.model) > began_ms);
  model_forget_ticks(&game.model, began_ms);
}

void run_without_waiting(void) {
  run(UV_RUN_NOWAIT);
}

/* An idle mailbox would have it sleep for ever. UV_RUN_ONCE may still end
 * because nothing is left that keeps the loop alive. */
static void run_no_longer(uv_run_mode mode, uint64_t delay_ms) {
  uv_handle_t *stopper = (uv_handle_t *)&game.stopper;

  if (is_inside() || clock_ms() + delay_ms > LATEST_MS)
    return;
  update_time();
  require(uv_timer_start(&game.stopper, on_stopper, delay_ms, 0) == 0);
  if (mode == UV_RUN_ONCE)
    uv_unref(stopper);
  run(mode);
  uv_ref(stopper);
  require(uv_timer_stop(&game.stopper) == 0);
}

void run_once(void) {
  run_no_longer(UV_RUN_ONCE, LONGEST_MS);
}

void run_for(void) {
  run_no_longer(UV_RUN_DEFAULT, take_step_ms());
}

/* The process was frozen, often several times. */
void stall(void) {
  unsigned times = 1 + pick(&game.bytes, 8);

  for (; times > 0 && !is_inside(); times--) {
    if (game.options.stall_ms == UINT32_MAX ||
        clock_ms() + LONGEST_MS > LATEST_MS)
      return;
    advance_ns((game.options.stall_ms + take_step_ms() % 4096) * 1000000);
    run_turn();
    run_no_longer(UV_RUN_DEFAULT, pick(&game.bytes, 64));
  }
}

void stop_loop(void) {
  if (game.in_run)
    uv_stop(&game.loop);
}

/* ---- Operations on the wheel --------------------------------------------- */

static void forget_all(void) {
  unsigned i;

  for (i = 0; i < game.model.capacity; i++)
    if (game.model.timers[i].active) {
      model_remove(&game.model, i);
      game.timers[i].closed = true;
      game.stopped++;
    }
}

void set_wheel_ref(void) {
  if (game.state == GONE)
    return;
  game.unrefd = pick(&game.bytes, 2);
  if (game.unrefd)
    uvwheel_unref(game.wheel);
  else
    uvwheel_ref(game.wheel);
}

static void never_visits(uvwheel_timer_t *timer, void *arg) {
  require(timer == NULL && arg != NULL);
}

/* A walk inside a walk does nothing. */
void walk(void) {
  if (game.state == GONE)
    return;
  if (game.model.walking) {
    uvwheel_walk(game.wheel, never_visits, &game);
    return;
  }
  model_walk_begin(&game.model);
  uvwheel_walk(game.wheel, on_visit, &game);
  model_walk_end(&game.model);
}

static void close_wheel(void) {
  if (game.state == GONE || game.state == CLOSING)
    return;
  forget_all();
  game.state = CLOSING;
  uvwheel_close(game.wheel, on_closed);
  if (game.state == CLOSING)
    uvwheel_close(game.wheel, NULL); /* ignored */
}

static void on_foreign_close(uv_handle_t *handle) {
  require(uvwheel_owns_handle(handle));
  game.foreign_closes--;
}

/* The mailbox's uv_async_t, or the handles that drive the wheel. */
typedef struct choice_s {
  bool mailbox;
  bool rest;
} choice_t;

static void close_handle(uv_handle_t *handle, void *arg) {
  const choice_t *choice = arg;
  bool is_mailbox = handle->type == UV_ASYNC;
  bool has_callback = pick(&game.bytes, 2) || is_mailbox;

  if (uv_is_closing(handle) || !uvwheel_owns_handle(handle) ||
      game.state == CLOSING || !(is_mailbox ? choice->mailbox : choice->rest))
    return;
  game.foreign_closes += has_callback;
  uv_close(handle, has_callback ? on_foreign_close : NULL);
  if (is_mailbox)
    game.mail.closed = true;
  else
    game.state = FOREIGN;
}

static void close_foreign_handles(void) {
  choice_t choice = {.mailbox = pick(&game.bytes, 4) != 1,
                     .rest = pick(&game.bytes, 4) != 1};

  uv_walk(&game.loop, close_handle, &choice);
}

static void open_wheel(void) {
  static const uint32_t slots[] = {1, 2, 3, 4, 8, 16, 64, 65, 512, 8192};
  static const uint32_t turns_ms[] = {1, 5, 100, UINT32_MAX};
  static const uint32_t stalls_ms[] = {1, 20, 250, 5000, UINT32_MAX};

  game.options.tick_ms = take_tick_ms(&game.bytes);
  game.options.slots = slots[pick(&game.bytes, LENGTH(slots))];
  game.options.turn_budget = take_budget(&game.bytes);
  game.options.max_timers =
      pick(&game.bytes, 4) == 1 ? pick(&game.bytes, 8) : 0;
  game.options.flags = pick(&game.bytes, 2) ? UVWHEEL_FIFO : 0;
  game.options.turn_ms = turns_ms[pick(&game.bytes, LENGTH(turns_ms))];
  game.options.stall_ms = stalls_ms[pick(&game.bytes, LENGTH(stalls_ms))];
  game.wheel = malloc(sizeof *game.wheel);
  require(game.wheel != NULL);
  memset(game.wheel, 0xA5, sizeof *game.wheel);
  require(uvwheel_init(&game.loop, game.wheel, &game.options) == 0);
  game.model.tick_ms = game.options.tick_ms;
  game.model.fifo = game.options.flags != 0;
  game.state = OPEN;
  game.unrefd = false;
  memset(&game.turns, 0, sizeof game.turns);
  memset(&game.stalls, 0, sizeof game.stalls);
  game.used = game.used_before_run = 0;
  game.fired = 0;
  game.fired_early = 0;
  game.stopped = 0;
  game.lateness_sum_ms = game.lateness_max_ms = 0;
  if (pick(&game.bytes, 2))
    open_mailbox();
}

void print(void) {
  FILE *nowhere;

  if (game.state == GONE)
    return;
  nowhere = fopen("/dev/null", "w");
  require(nowhere != NULL);
  uvwheel_print(game.wheel, nowhere);
  fclose(nowhere);
}

/* A wheel that has gone is followed by another one, with the same timers. */
void open_again(void) {
  unsigned i;

  if (game.state != GONE)
    return;
  open_wheel();
  for (i = 0; i < game.model.capacity; i++)
    if (game.timers[i].holder != NULL)
      init_timer(game.timers[i].holder);
}

/* Closing ends what the other bytes could do, so it does not come often. */
void end_wheel(void) {
  unsigned choice = pick(&game.bytes, 16);

  if (choice == 1)
    close_wheel();
  else if (choice == 2)
    close_foreign_handles();
}

/* ---- A game -------------------------------------------------------------- */

typedef struct operation_s {
  void (*run)(void);
  unsigned shares;
} operation_t;

#define ROW(name, shares) {name, shares},
#define ADD(name, shares) +(shares)

static const operation_t operations[] = {OPERATIONS(ROW)};

static void operate(void) {
  const operation_t *operation = operations;
  unsigned share = pick(&game.bytes, 0 OPERATIONS(ADD));

  for (; share >= operation->shares; operation++)
    share -= operation->shares;
  game.depth++;
  operation->run();
  game.depth--;
  verify_game();
}

/* The first poll adds libuv's own descriptors; until then uv_backend_timeout
 * does not tell. */
static void poll_once(void) {
  require(uv_timer_start(&game.stopper, on_stopper, 1, 0) == 0);
  uv_run(&game.loop, UV_RUN_NOWAIT);
  require(uv_timer_stop(&game.stopper) == 0);
}

static void open_own_handles(void) {
  require(uv_timer_init(&game.loop, &game.stopper) == 0);
  require(uv_prepare_init(&game.loop, &game.before_poll) == 0);
  require(uv_prepare_start(&game.before_poll, on_before_poll) == 0);
  uv_unref((uv_handle_t *)&game.before_poll);
  require(uv_check_init(&game.loop, &game.after_poll) == 0);
  require(uv_check_start(&game.after_poll, on_after_poll) == 0);
  uv_unref((uv_handle_t *)&game.after_poll);
}

static void close_own_handles(void) {
  uv_close((uv_handle_t *)&game.stopper, NULL);
  uv_close((uv_handle_t *)&game.before_poll, NULL);
  uv_close((uv_handle_t *)&game.after_poll, NULL);
}

static void begin(const uint8_t *data, size_t size) {
  memset(&game, 0, sizeof game);
  game.state = GONE;
  game.bytes.next = data;
  game.bytes.end = data + size;
  /* Shortly after its beginning, or not. */
  virtual_time_set_ns((pick(&game.bytes, 4) == 1 ? 1 : START_MS) * 1000000);
  require(uv_loop_init(&game.loop) == 0);
  open_own_handles();
  poll_once();
  game.closes_late = pick(&game.bytes, 2);
  game.model.capacity = take_capacity(&game.bytes);
  open_wheel();
}

/* A wheel whose handles others closed can be closed after its loop, too. */
static void end(void) {
  unsigned i;

  if (game.state != FOREIGN || is_mailbox_open() || !game.closes_late)
    close_wheel();
  close_own_handles();
  require(uv_run(&game.loop, UV_RUN_DEFAULT) == 0);
  require(uv_loop_close(&game.loop) == 0);
  close_wheel();
  require(game.state == GONE && game.foreign_closes == 0);
  for (i = 0; i < game.model.capacity; i++)
    free(game.timers[i].holder);
}

void play(const uint8_t *data, size_t size) {
  begin(data, size);
  verify_game();
  while (has_bytes(&game.bytes))
    operate();
  end();
}
