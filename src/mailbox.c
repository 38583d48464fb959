/* SPDX-License-Identifier: MIT */

/* The mailbox: how other threads reach the timers of a loop.
 *
 * Threads append requests to a list under a mutex. The loop takes the whole
 * list at once, and calls the requests back without the mutex. A post holds the
 * mutex until uv_async_send returns: uvwheel_close waits for that. */

#include "binding.h"

#ifdef UVWHEEL_CHECKS
/* A mark of queued requests, which uninitialised memory hardly holds. */
#define QUEUED(post) ((void *)~(uintptr_t)(post))
#define SET_MARK(post, mark) ((post)->reserved[0] = (mark))
#else
#define SET_MARK(post, mark) ((void)0)
#endif

/* Takes the requests that threads have posted, unless taken ones are left.
 * Returns whether there are any to call back. */
static bool take_posted(uvwheel_state_t *state) {
  if (state->mailbox.taken == NULL) {
    uv_mutex_lock(&state->mailbox.mutex);
    state->mailbox.taken = state->mailbox.posted;
    state->mailbox.posted = NULL;
    state->mailbox.posted_end = &state->mailbox.posted;
    uv_mutex_unlock(&state->mailbox.mutex);
  }
  return state->mailbox.taken != NULL;
}

/* Calls back the first request, whose callback may free it. */
static void call_first(uvwheel_state_t *state, int status) {
  uvwheel_post_t *post = state->mailbox.taken;

  MUST_HOLD(post != NULL);
  state->mailbox.taken = post->next;
  SET_MARK(post, NULL);
  post->cb(post, status);
}

/* Requests that are posted meanwhile wait, so that one that posts itself cannot
 * keep the loop from polling. If requests are left, their wake-ups may be used
 * up: so this asks for another call. */
void uvwheel__on_post(uv_async_t *async) {
  uvwheel_state_t *state = CONTAINER_OF(async, uvwheel_state_t, mailbox.async);
  uint64_t budget = state->options.turn_budget;
  batch_t batch;

  (void)take_posted(state);
  uvwheel__begin_batch(&batch);
  while (state->mailbox.taken != NULL && budget-- != 0 && !IS_CLOSING(*async)) {
    call_first(state, 0);
    if (count_callback(state, &batch))
      break;
  }
  (void)uvwheel__read_clock(state, &batch);
  if (take_posted(state) && !IS_CLOSING(*async))
    (void)uv_async_send(async);
}

void uvwheel__cancel_posts(uvwheel_state_t *state) {
  while (take_posted(state))
    call_first(state, UV_ECANCELED);
}

int uvwheel_open_mailbox(uvwheel_t *wheel) {
  uvwheel_state_t *state = get_state(wheel);
  int error;

  if (state == NULL || is_closing(state))
    return UV_EINVAL;
  if (IS_OPENED(state->mailbox.async))
    return UV_EALREADY;
  error = uv_async_init(state->loop, &state->mailbox.async, uvwheel__on_post);
  if (error != 0)
    return error;
  state->mailbox.posted_end = &state->mailbox.posted;
  uvwheel__update_refs(state);
  return 0;
}

/* The pointer to the state is NULL from the close callback on. When that has
 * returned, the state goes: a post that read the pointer earlier must be over
 * by then. */
int uvwheel_post(uvwheel_t *wheel, uvwheel_post_t *post, uvwheel_post_cb cb) {
  uvwheel_state_t *state;
  int error;

  if (wheel == NULL || post == NULL || cb == NULL)
    return UV_EINVAL;
  state = LOAD_STATE(&wheel->state);
  if (state == NULL)
    return UV_ECANCELED;
  if (!IS_OPENED(state->mailbox.async))
    return UV_EINVAL;
  uv_mutex_lock(&state->mailbox.mutex);
  error = state->is_close_called ? UV_ECANCELED : 0;
  if (error == 0) {
    MISUSE_IF(post->reserved[0] == QUEUED(post), "request", post,
              "posted while it is queued, which loses those behind it");
    SET_MARK(post, QUEUED(post));
    post->next = NULL;
    post->cb = cb;
    *state->mailbox.posted_end = post;
    state->mailbox.posted_end = &post->next;
    (void)uv_async_send(&state->mailbox.async);
  }
  uv_mutex_unlock(&state->mailbox.mutex);
  return error;
}
