/* SPDX-License-Identifier: MIT */

/* Small worlds of peers that speak to a real loop in virtual time, each with an
 * idle timeout on the wheel. A move is a word of a peer, time in which the loop
 * is blocked, or an iteration, in which callbacks may hold the loop before or
 * after those that hear the peers. In each state the promises of a wheel must
 * hold:
 *
 * - Heard first: no timer fires while a word waits that its peer had said by
 *   the loop's time after the last poll. Nor if the peer had spoken within half
 *   of its timeout before, by its own clock. (If another callback of the same
 *   poll holds the loop, the word is heard with an older time.)
 * - Each timer fires within its timeout, a tick and what it is put back by, in
 *   the iteration in which that has passed or in the next one; while the loop
 *   is never quiet, at most the wait of P6 later.
 * - A stall puts a timer back that measures silence, as stalls.h says, and no
 *   appointment. It is no longer than the time since the poll before.
 *
 * A word is a count in an eventfd, of its parts. The kernel's state is not part
 * of a world, so each iteration first sets it to what the world says. */

#include "world_peers.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "virtual_time.h"

peers_world_t peers_world;

/* Those of the peers, and the holder's. */
static int fds[PEERS + 1];

/* ---- Times --------------------------------------------------------------- */

static void set_clock_ms(uint64_t ms) {
  peers_world.clock_ns = ms * 1000000;
  virtual_time_set_ns(peers_world.clock_ns);
}

static void be_held(uint64_t ms) {
  set_clock_ms(peers_clock_ms() + ms);
}

/* May the process be frozen for so long? */
static bool can_freeze(uint64_t ms) {
  return peers_clock_ms() + ms <=
         uv_now(&peers_world.loop) + SLEEP_MS + LONG_MS;
}

/* ---- Peers --------------------------------------------------------------- */

static void write_word(unsigned index, uint64_t parts) {
  require(write(fds[index], &parts, sizeof parts) == sizeof parts);
}

/* One part of it. */
static void read_word(unsigned index) {
  uint64_t count;

  require(read(fds[index], &count, sizeof count) == sizeof count);
}

static void speak(unsigned index, unsigned parts) {
  peers_world.peers[index].waits = parts;
  peers_world.peers[index].spoken_ms = peers_clock_ms();
}

static void start_timer(deadline_t *deadline, uvwheel_timer_cb cb,
                        uint64_t timeout) {
  require(uvwheel_timer_start(&deadline->timer, cb, timeout, 0) == 0);
  deadline->due_ms = uv_now(&peers_world.loop) + timeout;
  deadline->wait_ms = timeout;
  deadline->silence.is_measured = false;
}

static void measure(deadline_t *deadline) {
  uint64_t now_ms = uv_now(&peers_world.loop);

  deadline->due_ms = now_ms + deadline->wait_ms;
  deadline->silence =
      begin_silence(&peers_world.stalls, now_ms, deadline->wait_ms);
}

static void expect_from(deadline_t *deadline, uvwheel_timer_cb cb,
                        uint64_t timeout) {
  require(uvwheel_timer_expect(&deadline->timer, cb, timeout) == 0);
  deadline->wait_ms = timeout;
  measure(deadline);
}

static void refresh_timer(deadline_t *deadline) {
  require(uvwheel_timer_refresh(&deadline->timer) == 0);
  measure(deadline);
}

static void react(unsigned index);

static void on_idle(uvwheel_timer_t *timer) {
  peer_t *peer = timer->data;

  if (!peers_world.is_drawing) {
    verify_time(&peer->idle);
    verify_silence(peer);
  }
  react((unsigned)(peer - peers_world.peers));
}

/* One of the peers is expected, the other has an appointment until its first
 * word. */
static void open_peer(unsigned index) {
  peer_t *peer = &peers_world.peers[index];

  peer->spoken_ms = peer->known_ms = uv_now(&peers_world.loop);
  peer->overdue = 0;
  (index == 0 ? start_timer : expect_from)(&peer->idle, on_idle,
                                           peer->timeout_ms);
}

static void on_word(uv_poll_t *socket, int status, int events) {
  peer_t *peer = CONTAINER_OF(socket, peer_t, socket);

  require(status == 0 && events == UV_READABLE && peer->waits > 0);
  watch_stalls();
  read_word((unsigned)(peer - peers_world.peers));
  if (--peer->waits > 0)
    return;
  peer->known_ms = min_of(peer->spoken_ms, uv_now(&peers_world.loop));
  if (uvwheel_timer_is_active(&peer->idle.timer))
    refresh_timer(&peer->idle);
}

/* ---- What holds the loop ------------------------------------------------- */

static void hold_loop(void) {
  watch_stalls();
  be_held(peers_world.hold_ms);
  if (peers_world.is_updating)
    uv_update_time(&peers_world.loop);
}

static void on_holder(uv_poll_t *holder, int status, int events) {
  (void)holder;
  require(status == 0 && events == UV_READABLE);
  read_word(PEERS);
  hold_loop();
  if (peers_world.hold != BEFORE_PEERS_SPEAK || peers_world.peers[0].waits > 0)
    return;
  speak(0, 1);
  write_word(0, 1);
}

static void on_alarm(uv_timer_t *alarm) {
  (void)alarm;
  if (peers_world.hold == IN_UV_TIMER)
    hold_loop();
}

static void on_request(uvwheel_timer_t *timer) {
  (void)timer;
  if (!peers_world.is_drawing)
    verify_time(&peers_world.request);
  if (peers_world.hold == IN_WHEEL_TIMER)
    hold_loop();
}

/* Called before the wheel's own check. */
static void on_after_poll(uv_check_t *check) {
  unsigned i;

  (void)check;
  end_turn();
  peers_world.checked_before_ms = peers_world.checked_ms;
  peers_world.checked_ms = uv_now(&peers_world.loop);
  peers_world.clock_ns = virtual_time_ns(); /* it may have slept */
  peers_world.unheard_ms = UINT64_MAX;
  for (i = 0; i < PEERS; i++)
    if (peers_world.peers[i].waits > 0)
      peers_world.unheard_ms =
          min_of(peers_world.unheard_ms, peers_world.peers[i].spoken_ms);
}

/* And after it, before the driver: from 1.45 on that may see another stall. */
static void on_checked(uv_check_t *check) {
  (void)check;
  note_checked();
}

static void close_timer(unsigned index) {
  uvwheel_timer_t *timer = &peers_world.peers[index].idle.timer;

  uvwheel_timer_close(timer);
  require(uvwheel_timer_start(timer, on_idle, 1, 0) == UV_EINVAL);
  require(uvwheel_timer_init(&peers_world.wheel, timer) == 0);
}

/* Before its time the soonest fires. In its callback none does. */
static void fire_one(void) {
  bool is_inner = peers_world.is_drawing;
  uint64_t count = uvwheel_count(&peers_world.wheel), fired;

  peers_world.is_drawing = true;
  fired = uvwheel_fire_soonest(&peers_world.wheel, 1);
  peers_world.is_drawing = is_inner;
  require(fired == (!is_inner && count > 0));
}

static void react(unsigned index) {
  switch (peers_world.reaction) {
  case COME_AGAIN:
    open_peer(index);
    break;
  case CLOSE_OTHER:
    close_timer(1 - index);
    break;
  case REQUEST:
    start_timer(&peers_world.request, on_request, 0);
    break;
  case FIRE_SOONEST:
    fire_one();
    break;
  default:
    break;
  }
}

/* ---- An iteration -------------------------------------------------------- */

/* The order in which descriptors become ready is that of the callbacks. */
static void set_kernel_state(void) {
  struct epoll_event events[PEERS + 1];
  uint64_t count;
  unsigned i;

  for (i = 0; i <= PEERS; i++)
    while (read(fds[i], &count, sizeof count) > 0)
      ;
  (void)syscall(SYS_epoll_pwait, uv_backend_fd(&peers_world.loop), events,
                LENGTH(events), 0, NULL, (size_t)0);
  if (peers_world.hold == BEFORE_PEERS ||
      peers_world.hold == BEFORE_PEERS_SPEAK)
    write_word(PEERS, 1);
  for (i = 0; i < PEERS; i++)
    if (peers_world.peers[i].waits > 0)
      write_word(i, peers_world.peers[i].waits);
  if (peers_world.hold == AFTER_PEERS)
    write_word(PEERS, 1);
}

static void run_loop(uv_run_mode mode) {
  iteration_t iteration;

  begin_iteration(&iteration);
  set_kernel_state();
  (void)uv_run(&peers_world.loop, mode);
  peers_world.clock_ns = virtual_time_ns();
  verify_iteration(&iteration);
  peers_world.hold = NO_HOLD;
  peers_world.reaction = NO_REACTION;
}

/* ---- Moves --------------------------------------------------------------- */

static void begin_move(void) {
  virtual_time_set_ns(peers_world.clock_ns);
}

/* A word of two parts is read in two polls. */
static bool say(unsigned index, uint64_t parts) {
  const peer_t *peer = &peers_world.peers[index];

  begin_move();
  if (peer->waits >= parts && peer->spoken_ms == peers_clock_ms())
    return false;
  speak(index, (unsigned)parts);
  return true;
}

/* A peer whose timer has fired comes again. */
static bool come(unsigned index, uint64_t unused) {
  (void)unused;
  if (uvwheel_timer_is_active(&peers_world.peers[index].idle.timer))
    return false;
  begin_move();
  open_peer(index);
  return true;
}

static bool request(unsigned is_expected, uint64_t timeout) {
  begin_move();
  (is_expected ? expect_from : start_timer)(&peers_world.request, on_request,
                                            timeout);
  return true;
}

static bool answer(unsigned unused, uint64_t also_unused) {
  (void)unused, (void)also_unused;
  if (!uvwheel_timer_is_active(&peers_world.request.timer))
    return false;
  begin_move();
  require(uvwheel_timer_stop(&peers_world.request.timer) == 0);
  return true;
}

/* The process is frozen between two iterations. */
static bool block(unsigned unused, uint64_t ms) {
  (void)unused;
  if (!can_freeze(ms))
    return false;
  begin_move();
  be_held(ms);
  return true;
}

/* The flag above the way to hold has the callback call uv_update_time. */
#define UPDATING 16u

static bool run(unsigned hold, uint64_t ms) {
  begin_move();
  peers_world.hold = (holding_t)(hold % UPDATING);
  peers_world.is_updating = hold >= UPDATING;
  peers_world.hold_ms = ms;
  if (peers_world.hold == IN_WHEEL_TIMER &&
      !uvwheel_timer_is_active(&peers_world.request.timer))
    return false;
  if (peers_world.hold == IN_UV_TIMER)
    require(uv_timer_start(&peers_world.alarm, on_alarm, 0, 0) == 0);
  run_loop(UV_RUN_NOWAIT);
  require(uv_timer_stop(&peers_world.alarm) == 0);
  return true;
}

/* The loop runs late, and callbacks do something. */
static bool run_late(unsigned reaction, uint64_t ms) {
  begin_move();
  be_held(ms);
  peers_world.reaction = (reaction_t)reaction;
  run_loop(UV_RUN_NOWAIT);
  return true;
}

static bool fire_soonest(unsigned unused, uint64_t also_unused) {
  (void)unused, (void)also_unused;
  if (uvwheel_count(&peers_world.wheel) == 0)
    return false;
  begin_move();
  fire_one();
  return true;
}

/* The loop sleeps for that long at most, and may be frozen meanwhile. */
static bool sleep_for(unsigned frozen_ms, uint64_t ms) {
  uint64_t stale_ms = peers_clock_ms() > uv_now(&peers_world.loop)
                          ? peers_clock_ms() - uv_now(&peers_world.loop)
                          : 0;

  if (!can_freeze(frozen_ms))
    return false;
  begin_move();
  require(uv_timer_start(&peers_world.alarm, on_alarm, stale_ms + ms, 0) == 0);
  virtual_time_oversleep_ns(frozen_ms * UINT64_C(1000000));
  peers_world.hold = IN_SLEEP;
  run_loop(UV_RUN_ONCE);
  virtual_time_oversleep_ns(0);
  require(uv_timer_stop(&peers_world.alarm) == 0);
  return true;
}

/* ---- The world ----------------------------------------------------------- */

static void add_holds(uint64_t ms, unsigned update) {
  add_move("run, held before peers", run, BEFORE_PEERS + update, ms);
  add_move("run, held after peers", run, AFTER_PEERS + update, ms);
  add_move("run, held by a uv_timer_t", run, IN_UV_TIMER + update, ms);
  add_move("run, held by the request", run, IN_WHEEL_TIMER + update, ms);
}

static void add_rare_moves(void) {
  unsigned reaction;

  for (reaction = NO_REACTION; reaction < REACTIONS; reaction++)
    add_move("run late, with a reaction", run_late, reaction, SHORT_MS);
  add_move("fire_soonest", fire_soonest, 0, 0);
  add_move("request", request, 0, 0);
  add_move("request", request, 0, 3);
  add_move("expect", request, 1, 3);
  add_move("answer", answer, 0, 0);
  add_holds(SHORT_MS, UPDATING);
  add_holds(LONG_MS, UPDATING);
  add_move("sleep", sleep_for, 0, 2);
  add_move("sleep, frozen", sleep_for, LONG_MS, 1);
  add_move("sleep, frozen", sleep_for, SLEEP_MS, 1);
  add_move("block", block, 0, SHORT_MS);
}

/* The loop is never quiet for longer than the wheel waits. */
static void add_noisy_moves(void) {
  unsigned i;

  for (i = 0; i < PEERS; i++) {
    add_move("say", say, i, 3);
    add_move("come", come, i, 0);
  }
  add_move("run", run, NO_HOLD, 0);
  add_move("run, held before peers", run, BEFORE_PEERS, LONG_MS);
  add_move("run, held before peers", run, BEFORE_PEERS, NOISE_MS);
  add_move("run, held by a uv_timer_t", run, IN_UV_TIMER, LONG_MS);
  add_move("run, held by a uv_timer_t", run, IN_UV_TIMER, NOISE_MS);
  add_move("block", block, 0, 1);
  add_move("block", block, 0, LONG_MS);
}

static void add_moves(void) {
  unsigned i;

  for (i = 0; i < PEERS; i++) {
    add_move("say", say, i, 1);
    add_move("say", say, i, 2);
    add_move("come", come, i, 0);
  }
  add_move("run", run, NO_HOLD, 0);
  add_holds(SHORT_MS, 0);
  add_holds(LONG_MS, 0);
  add_move("run, held before peers that speak", run, BEFORE_PEERS_SPEAK,
           SHORT_MS);
  add_move("run, held before peers that speak", run, BEFORE_PEERS_SPEAK,
           LONG_MS);
  add_move("sleep", sleep_for, 0, 1);
  add_move("sleep", sleep_for, 0, 100);
  add_move("block", block, 0, 1);
  add_move("block", block, 0, LONG_MS);
  add_move("block", block, 0, SLEEP_MS);
}

static void open_socket(uv_poll_t *socket, unsigned index, uv_poll_cb cb) {
  fds[index] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
  require(fds[index] >= 0);
  require(uv_poll_init(&peers_world.loop, socket, fds[index]) == 0);
  require(uv_poll_start(socket, UV_READABLE, cb) == 0);
}

static void open_handles(void) {
  unsigned i;

  require(uv_loop_init(&peers_world.loop) == 0);
  require(uv_timer_init(&peers_world.loop, &peers_world.alarm) == 0);
  for (i = 0; i < PEERS; i++)
    open_socket(&peers_world.peers[i].socket, i, on_word);
  open_socket(&peers_world.holder, PEERS, on_holder);
  /* A loop that has polled has told the kernel what it waits for. */
  (void)uv_run(&peers_world.loop, UV_RUN_NOWAIT);
}

static void open_peers(const world_t *world) {
  uvwheel_options_t options = {.tick_ms = TICK_MS,
                               .slots = world->shape.slots,
                               .flags = world->shape.flags,
                               .stall_ms = STALL_MS};
  insides_t insides;
  unsigned i;

  memset(&peers_world, 0, sizeof peers_world);
  virtual_time_set_coarse_step_ns(LAG_MS * 1000000);
  set_clock_ms(BEGIN_MS);
  open_handles();
  /* The check that is started last is called first. */
  require(uv_check_init(&peers_world.loop, &peers_world.checked) == 0);
  require(uv_check_start(&peers_world.checked, on_checked) == 0);
  require(uvwheel_init(&peers_world.loop, &peers_world.wheel, &options) == 0);
  require(uv_check_init(&peers_world.loop, &peers_world.after_poll) == 0);
  require(uv_check_start(&peers_world.after_poll, on_after_poll) == 0);
  for (i = 0; i < DEADLINES; i++)
    require(uvwheel_timer_init(&peers_world.wheel, &deadline_at(i)->timer) ==
            0);
  for (i = 0; i < PEERS; i++) {
    peers_world.peers[i].idle.timer.data = &peers_world.peers[i];
    peers_world.peers[i].timeout_ms = 3 + 12 * i;
    open_peer(i);
  }
  insides = insides_of(&peers_world.wheel);
  add_memory(&peers_world, sizeof peers_world);
  add_memory(insides.memory, insides.size);
  add_slots(insides.core);
  if (world->variant != 2)
    add_moves();
  if (world->variant == 1)
    add_rare_moves();
  else if (world->variant == 2)
    add_noisy_moves();
}

static void close_peers(void) {
  unsigned i;

  uvwheel_close(&peers_world.wheel, NULL);
  uv_close((uv_handle_t *)&peers_world.after_poll, NULL);
  uv_close((uv_handle_t *)&peers_world.checked, NULL);
  uv_close((uv_handle_t *)&peers_world.alarm, NULL);
  uv_close((uv_handle_t *)&peers_world.holder, NULL);
  for (i = 0; i < PEERS; i++)
    uv_close((uv_handle_t *)&peers_world.peers[i].socket, NULL);
  (void)uv_run(&peers_world.loop, UV_RUN_DEFAULT);
  require(uv_loop_close(&peers_world.loop) == 0);
  for (i = 0; i <= PEERS; i++)
    close(fds[i]);
}

const layer_t peers_layer = {"peers", open_peers, close_peers, verify_peers,
                             key_of_peers};
