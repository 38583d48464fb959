/* SPDX-License-Identifier: MIT */

/* The wheel of a loop: init, close and walk. listen.c runs it. */

#include "binding.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Making ------------------------------------------------------------- */

/* For the default of `slots`: the ms of a round, and the limit. */
#define DEFAULT_ROUND 51200
#define DEFAULT_MAX_SLOTS 16384

/* The upper limit of busy_wait: little beside ticks of seconds. */
#define MAX_WAIT 250

/* So the state's address has zeros where a timer's flags stand. */
#define ALIGNMENT 128
_Static_assert(ALIGNMENT > TIMER_FLAGS, "room for the flags of a timer");
#define ALIGN_UP(number) (((number) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

/* Are libuv's private fields where the library expects them? No call returns
 * the queue of watchers; it stands near the backend's descriptor, which
 * uv_backend_fd returns. On Windows, libuv before 1.44.2 runs the check and the
 * timers before it calls back what a poll has found. */
static bool is_libuv_known(const uv_loop_t *loop) {
  uv_timer_t timer = {0};

#ifdef _WIN32
  if (uv_version() < 0x012c02)
    return false;
#else
  if (loop->backend_fd != uv_backend_fd(loop))
    return false;
#endif
  for (; timer.flags <= UV__HANDLE_CLOSED; timer.flags++)
    if (uv_is_closing((uv_handle_t *)&timer) != IS_CLOSING(timer))
      return false;
  return loop->time == uv_now(loop);
}

/* By how many ms the loop's clock may lag, besides the fraction of a ms that it
 * drops. On Linux libuv reads the coarse clock if that is precise to the ms. */
static uint64_t clock_lag(void) {
#ifdef __linux__
  struct timespec precision;

  if (clock_getres(CLOCK_MONOTONIC_COARSE, &precision) == 0 &&
      precision.tv_sec == 0 && precision.tv_nsec <= 1000000)
    return 1;
#endif
  return 0;
}

static void choose_defaults(uvwheel_options_t *options) {
  uint64_t slots;

  if (options->tick_ms == 0)
    options->tick_ms = UVWHEEL_DEFAULT_TICK_MS;
  slots = (DEFAULT_ROUND + options->tick_ms - 1) / options->tick_ms;
  slots = max_of(min_of(slots, DEFAULT_MAX_SLOTS), UVWHEEL_DEFAULT_SLOTS);
  if (options->slots == 0)
    options->slots = (uint32_t)slots;
  options->slots = (uint32_t)(UINT64_C(1) << bit_width(options->slots - 1));
  if (options->turn_budget == 0)
    options->turn_budget = UVWHEEL_DEFAULT_TURN_BUDGET;
  if (options->turn_ms == 0)
    options->turn_ms = UVWHEEL_DEFAULT_TURN_MS;
  if (options->stall_ms == 0)
    options->stall_ms = UVWHEEL_DEFAULT_STALL_MS;
}

/* Allocates the state of a wheel with its slots behind it, all zeros. */
static uvwheel_state_t *allocate(size_t slots_size) {
  size_t size = ALIGN_UP(sizeof(uvwheel_state_t)) + slots_size + ALIGNMENT - 1;
  char *memory = calloc(1, size);
  uvwheel_state_t *state;

  if (memory == NULL)
    return NULL;
  state = (void *)(memory + (-(uintptr_t)memory % ALIGNMENT));
  state->memory = memory;
  return state;
}

/* Finds a wheel by its check (an outer uv_walk may hide it). */
static void find_wheel(uv_handle_t *handle, void *arg) {
  if (handle->type == UV_CHECK &&
      ((uv_check_t *)handle)->check_cb == uvwheel__on_check)
    *(uvwheel_state_t **)arg =
        CONTAINER_OF(handle, uvwheel_state_t, listen.check);
}

/* The driver and the idle handle are started and stopped, to set the callbacks
 * that start_driver and uvwheel_owns_handle read. */
static void add_handles(uvwheel_state_t *state) {
  uvwheel_state_t *other = NULL;

  list_init(&state->wheels_of_loop);
  uv_walk(state->loop, find_wheel, &other);
  if (other != NULL)
    append(&other->wheels_of_loop, &state->wheels_of_loop);
  (void)uv_timer_init(state->loop, &state->wake.driver);
  (void)uv_timer_start(&state->wake.driver, uvwheel__on_driver, 0, 0);
  (void)uv_idle_init(state->loop, &state->wake.idle);
  (void)uv_idle_start(&state->wake.idle, uvwheel__on_idle);
  uvwheel__disarm(state);
  (void)uv_check_init(state->loop, &state->listen.check);
  (void)uv_check_start(&state->listen.check, uvwheel__on_check);
  uv_unref((uv_handle_t *)&state->listen.check);
#ifdef UVWHEEL_CHECKS
  (void)uv_prepare_init(state->loop, &state->listen.prepare);
  (void)uv_prepare_start(&state->listen.prepare, uvwheel__on_prepare);
  uv_unref((uv_handle_t *)&state->listen.prepare);
#endif
}

int uvwheel_init(uv_loop_t *loop, uvwheel_t *wheel,
                 const uvwheel_options_t *options) {
  uvwheel_options_t none = {0}, chosen = options != NULL ? *options : none;
  uvwheel_state_t *state;
  size_t slots_size;
  int error;

  if (wheel == NULL)
    return UV_EINVAL;
  wheel->state = NULL;
  if (loop == NULL ||
      memcmp(chosen.reserved, none.reserved, sizeof none.reserved) != 0)
    return UV_EINVAL;
  if (!is_libuv_known(loop))
    return UV_ENOTSUP;
  choose_defaults(&chosen);
  slots_size = uvwheel__core_size(chosen.tick_ms, chosen.slots, chosen.flags);
  if (slots_size == 0)
    return UV_EINVAL;
  state = allocate(slots_size);
  if (state == NULL)
    return UV_ENOMEM;
  error = uv_mutex_init(&state->mailbox.mutex);
  if (error != 0) {
    free(state->memory);
    return error;
  }
  uvwheel__core_init(&state->core, chosen.tick_ms, chosen.slots, chosen.flags,
                     (char *)state + ALIGN_UP(sizeof *state));
  state->loop = loop;
  state->wheel = wheel;
  state->options = chosen;
  state->lag = clock_lag();
  state->most_active = chosen.max_timers != 0 ? chosen.max_timers : UINT64_MAX;
  state->busy_wait = min_of(max_of(chosen.tick_ms / 4, MIN_WAIT), MAX_WAIT);
  state->stall_after = chosen.stall_ms != UINT32_MAX ? chosen.stall_ms : NEVER;
  state->turn_ns =
      chosen.turn_ms != UINT32_MAX ? chosen.turn_ms * NS_PER_MS : NEVER;
  add_handles(state);
  wheel->state = state;
  return 0;
}

/* ---- Closing ------------------------------------------------------------ */

static const size_t handle_offsets[] = {
    offsetof(uvwheel_state_t, wake.driver),
    offsetof(uvwheel_state_t, wake.idle),
    offsetof(uvwheel_state_t, listen.check),
#ifdef UVWHEEL_CHECKS
    offsetof(uvwheel_state_t, listen.prepare),
#endif
    offsetof(uvwheel_state_t, mailbox.async)};

#define HANDLES (sizeof handle_offsets / sizeof *handle_offsets)

static uv_handle_t *handle_at(uvwheel_state_t *state, size_t index) {
  return (uv_handle_t *)(void *)((char *)state + handle_offsets[index]);
}

static bool are_closed(uvwheel_state_t *state) {
  size_t i;

  for (i = 0; i < HANDLES; i++) {
    const uv_handle_t *handle = handle_at(state, i);
    if (IS_OPENED(*handle) && !(handle->flags & UV__HANDLE_CLOSED))
      return false;
  }
  return true;
}

static void finish_close(uvwheel_state_t *state);

static void on_handle_closed(uv_handle_t *handle) {
  uvwheel_state_t *state = handle->data;

  MUST_HOLD(state->closing_handles != 0);
  state->closing_handles--;
  finish_close(state);
}

static void on_close_watch(uv_idle_t *close_watch) {
  if (are_closed(close_watch->data))
    uv_close((uv_handle_t *)close_watch, on_handle_closed);
}

/* Frees the state once libuv does not refer to it any more. If a walk still
 * does, this is called again at its end. If others close a handle, no callback
 * tells the wheel when libuv is done with it: then close_watch looks. Threads
 * may be in a post until the close callback returns, which may join them: so
 * the state goes last. */
static void finish_close(uvwheel_state_t *state) {
  if (state->closing_handles != 0 || state->is_walking)
    return;
  if (!are_closed(state)) {
    (void)uv_idle_init(state->loop, &state->close_watch);
    (void)uv_idle_start(&state->close_watch, on_close_watch);
    state->close_watch.data = state;
    state->closing_handles++;
    return;
  }
  MUST_HOLD(state->core.active == 0 && state->core.slots_in_use == 0);
  uvwheel__cancel_posts(state);
  STORE_STATE(&state->wheel->state, NULL);
  unlink_one(&state->wheels_of_loop);
  if (state->close_cb != NULL)
    state->close_cb(state->wheel);
  uv_mutex_destroy(&state->mailbox.mutex);
  free(state->memory);
}

void uvwheel_close(uvwheel_t *wheel, uvwheel_close_cb cb) {
  uvwheel_state_t *state = get_state(wheel);
  uvwheel_entry_t *entry;
  size_t i;

  if (state == NULL || state->is_close_called)
    return;
  uvwheel__core_walk_begin(&state->core);
  while ((entry = uvwheel__core_walk_next(&state->core)) != NULL)
    uvwheel_timer_close(timer_of(entry));
  uv_mutex_lock(&state->mailbox.mutex);
  state->is_close_called = true;
  uv_mutex_unlock(&state->mailbox.mutex);
  state->close_cb = cb;
  for (i = 0; i < HANDLES; i++) {
    uv_handle_t *handle = handle_at(state, i);
    if (!IS_OPENED(*handle) || IS_CLOSING(*handle))
      continue; /* not initialised, or others close it */
    state->closing_handles++;
    handle->data = state;
    uv_close(handle, on_handle_closed);
  }
  finish_close(state);
}

/* Compares callbacks, as data may be uninitialised. */
int uvwheel_owns_handle(const uv_handle_t *handle) {
  if (handle == NULL)
    return 0;
  switch (handle->type) {
  case UV_TIMER:
    return ((const uv_timer_t *)handle)->timer_cb == uvwheel__on_driver;
  case UV_IDLE:
    return ((const uv_idle_t *)handle)->idle_cb == uvwheel__on_idle ||
           ((const uv_idle_t *)handle)->idle_cb == on_close_watch;
#ifdef UVWHEEL_CHECKS
  case UV_PREPARE:
    return ((const uv_prepare_t *)handle)->prepare_cb == uvwheel__on_prepare;
#endif
  case UV_CHECK:
    return ((const uv_check_t *)handle)->check_cb == uvwheel__on_check;
  case UV_ASYNC:
    return ((const uv_async_t *)handle)->async_cb == uvwheel__on_post;
  default:
    return 0;
  }
}

/* ---- The wheel ---------------------------------------------------------- */

int uvwheel_is_closing(const uvwheel_t *wheel) {
  return get_state(wheel) != NULL && is_closing(wheel->state);
}

uv_loop_t *uvwheel_get_loop(const uvwheel_t *wheel) {
  return get_state(wheel) != NULL ? wheel->state->loop : NULL;
}

uint64_t uvwheel_count(const uvwheel_t *wheel) {
  return get_state(wheel) != NULL ? wheel->state->core.active : 0;
}

void uvwheel_walk(uvwheel_t *wheel, uvwheel_walk_cb cb, void *arg) {
  uvwheel_state_t *state = get_state(wheel);
  uvwheel_entry_t *entry;

  if (state == NULL || cb == NULL || state->is_close_called ||
      state->is_walking)
    return;
  state->is_walking = true;
  uvwheel__core_walk_begin(&state->core);
  while ((entry = uvwheel__core_walk_next(&state->core)) != NULL)
    cb(timer_of(entry), arg);
  state->is_walking = false;
  if (state->is_close_called)
    finish_close(state);
  else
    uvwheel__arm(state);
}

static void set_unref(uvwheel_t *wheel, bool is_unref) {
  if (get_state(wheel) == NULL)
    return;
  wheel->state->is_unref = is_unref;
  uvwheel__update_refs(wheel->state);
}

void uvwheel_ref(uvwheel_t *wheel) {
  set_unref(wheel, false);
}

void uvwheel_unref(uvwheel_t *wheel) {
  set_unref(wheel, true);
}

int uvwheel_has_ref(const uvwheel_t *wheel) {
  return get_state(wheel) != NULL && !wheel->state->is_unref;
}

/* ---- Version ------------------------------------------------------------ */

unsigned uvwheel_version(void) {
  return UVWHEEL_VERSION_HEX;
}

#define QUOTE(number) #number
#define VERSION(major, minor, patch) \
  QUOTE(major) "." QUOTE(minor) "." QUOTE(patch)

const char *uvwheel_version_string(void) {
  return VERSION(UVWHEEL_VERSION_MAJOR, UVWHEEL_VERSION_MINOR,
                 UVWHEEL_VERSION_PATCH)
#if !UVWHEEL_VERSION_IS_RELEASE
      "-" UVWHEEL_VERSION_SUFFIX
#endif
      ;
}
