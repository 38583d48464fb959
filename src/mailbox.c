/* SPDX-License-Identifier: MIT */

/* The mailbox: how other threads reach the timers of a loop.
 *
 * Threads append requests to a list under a mutex. The loop takes the whole
 * list at once, and calls the requests back without the mutex. A post holds the
 * mutex until uv_async_send returns, so that the mailbox cannot be closed
 * meanwhile; libuv's own thread pool does the same. While a wake-up is pending,
 * uv_async_send does nothing. */

#include "binding.h"

/* Takes the requests that threads have posted. All that were taken before have
 * been called back. */
static void
take(uvwheel_state_t *state)
{
  uv_mutex_lock(&state->mutex);
  state->taken = state->posted;
  state->posted = NULL;
  state->posted_end = &state->posted;
  uv_mutex_unlock(&state->mutex);
}

/* Calls back the first request, whose callback may free it. */
static void
call_first(uvwheel_state_t *state, int status)
{
  uvwheel_post_t *post = state->taken;

  state->taken = post->next;
  post->cb(post, status);
}

/* A request that is posted meanwhile waits for the next call, so that one that
 * posts itself cannot keep the loop from polling. */
void
uvwheel__on_post(uv_async_t *async)
{
  uvwheel_state_t *state = CONTAINER_OF(async, uvwheel_state_t, async);
  uint64_t budget = state->options.turn_budget;
  batch_t batch;

  if (state->taken == NULL)
    take(state);
  uvwheel__begin_batch(&batch);
  while (state->taken != NULL && budget-- != 0 && !IS_CLOSING(*async)) {
    call_first(state, 0);
    if (count_callback(state, &batch))
      break;
  }
  uvwheel__end_batch(state, &batch);
  if (!uvwheel__is_mailbox_empty(state))
    (void)uv_async_send(async);
}

bool
uvwheel__is_mailbox_empty(uvwheel_state_t *state)
{
  bool is_empty;

  /* If others have closed it, requests wait for uvwheel_close. */
  if (!state->has_mailbox || IS_CLOSING(state->async))
    return true;
  uv_mutex_lock(&state->mutex);
  is_empty = state->taken == NULL && state->posted == NULL;
  uv_mutex_unlock(&state->mutex);
  return is_empty;
}

void
uvwheel__close_mailbox(uvwheel_state_t *state)
{
  if (!state->has_mailbox)
    return;
  uv_mutex_lock(&state->mutex);
  state->is_mailbox_closed = true;
  uv_mutex_unlock(&state->mutex);
}

void
uvwheel__cancel_posts(uvwheel_state_t *state)
{
  if (!state->has_mailbox)
    return;
  do {
    while (state->taken != NULL)
      call_first(state, UV_ECANCELED);
    take(state);
  } while (state->taken != NULL);
}

int
uvwheel_open_mailbox(uvwheel_t *wheel)
{
  uvwheel_state_t *state;
  int error;

  if (!is_wheel(wheel) || is_closing(wheel->state))
    return UV_EINVAL;
  state = wheel->state;
  if (state->has_mailbox)
    return UV_EALREADY;
  error = uv_mutex_init(&state->mutex);
  if (error != 0)
    return error;
  error = uv_async_init(state->loop, &state->async, uvwheel__on_post);
  if (error != 0) {
    uv_mutex_destroy(&state->mutex);
    return error;
  }
  state->posted_end = &state->posted;
  state->has_mailbox = true;
  uvwheel__update_refs(state);
  return 0;
}

/* The state of a wheel that is closing goes once the close callback has
 * returned. Before that callback the pointer to it becomes NULL. So a thread
 * that posts meanwhile finds a closed mailbox, or no state. */
int
uvwheel_post(uvwheel_t *wheel, uvwheel_post_t *post, uvwheel_post_cb cb)
{
  uvwheel_state_t *state;
  int error = 0;

  if (wheel == NULL || post == NULL || cb == NULL)
    return UV_EINVAL;
  state = LOAD_STATE(&wheel->state);
  if (state == NULL)
    return UV_ECANCELED;
  if (!state->has_mailbox)
    return UV_EINVAL;
  uv_mutex_lock(&state->mutex);
  if (state->is_mailbox_closed) {
    error = UV_ECANCELED;
  } else {
    post->next = NULL;
    post->cb = cb;
    *state->posted_end = post;
    state->posted_end = &post->next;
    (void)uv_async_send(&state->async);
  }
  uv_mutex_unlock(&state->mutex);
  return error;
}
