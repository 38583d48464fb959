/* SPDX-License-Identifier: MIT */

/* The mailbox: how other threads reach the timers of a loop.
 *
 * Threads append requests to a list under a mutex. The loop takes the whole
 * list at once, and calls the requests back without the mutex. A post holds the
 * mutex until uv_async_send returns, so that the mailbox cannot be closed
 * meanwhile; libuv's own thread pool does the same. While a wake-up is pending,
 * uv_async_send does nothing. */

#include "binding.h"

/* Takes the requests that threads have posted, behind those that the loop has
 * left. */
static void
take(uvwheel_t *wheel)
{
  uv_mutex_lock(&wheel->mutex);
  if (wheel->posted != NULL) {
    *wheel->taken_end = wheel->posted;
    wheel->taken_end = wheel->posted_end;
    wheel->posted = NULL;
    wheel->posted_end = &wheel->posted;
  }
  uv_mutex_unlock(&wheel->mutex);
}

/* Calls back the first request, whose callback may free it. */
static void
call_first(uvwheel_t *wheel, int status)
{
  uvwheel_post_t *post = wheel->taken;

  wheel->taken = post->next;
  if (wheel->taken == NULL)
    wheel->taken_end = &wheel->taken;
  post->cb(post, status);
}

/* A request that is posted meanwhile waits for the next call, so that one that
 * posts itself cannot keep the loop from polling. */
void
uvwheel__on_wake(uv_async_t *async)
{
  uvwheel_t *wheel = CONTAINER_OF(async, uvwheel_t, async);
  uint64_t budget = wheel->options.turn_budget;
  batch_t batch;

  take(wheel);
  uvwheel__begin_batch(wheel, &batch);
  while (wheel->taken != NULL && budget-- != 0 && !batch.is_over &&
         !uv_is_closing((uv_handle_t *)async)) {
    call_first(wheel, 0);
    uvwheel__check_time(wheel, &batch);
  }
  uvwheel__end_batch(wheel, &batch);
  if (!uvwheel__is_mailbox_empty(wheel))
    (void)uv_async_send(async);
}

bool
uvwheel__is_mailbox_empty(uvwheel_t *wheel)
{
  bool is_empty;

  /* If others have closed it, requests wait for uvwheel_close. */
  if (!wheel->has_mailbox || uv_is_closing((uv_handle_t *)&wheel->async))
    return true;
  uv_mutex_lock(&wheel->mutex);
  is_empty = wheel->taken == NULL && wheel->posted == NULL;
  uv_mutex_unlock(&wheel->mutex);
  return is_empty;
}

void
uvwheel__close_mailbox(uvwheel_t *wheel)
{
  if (!wheel->has_mailbox)
    return;
  uv_mutex_lock(&wheel->mutex);
  wheel->is_mailbox_closed = 1;
  uv_mutex_unlock(&wheel->mutex);
}

void
uvwheel__destroy_mailbox(uvwheel_t *wheel)
{
  if (!wheel->has_mailbox)
    return;
  take(wheel);
  while (wheel->taken != NULL)
    call_first(wheel, UV_ECANCELED);
  uv_mutex_destroy(&wheel->mutex);
}

int
uvwheel_open_mailbox(uvwheel_t *wheel)
{
  int error;

  if (!is_wheel(wheel) || is_closing(wheel))
    return UV_EINVAL;
  if (wheel->has_mailbox)
    return UV_EALREADY;
  error = uv_mutex_init(&wheel->mutex);
  if (error != 0)
    return error;
  error = uv_async_init(wheel->loop, &wheel->async, uvwheel__on_wake);
  if (error != 0) {
    uv_mutex_destroy(&wheel->mutex);
    return error;
  }
  wheel->posted_end = &wheel->posted;
  wheel->taken_end = &wheel->taken;
  wheel->has_mailbox = 1;
  uvwheel__update_refs(wheel);
  return 0;
}

int
uvwheel_post(uvwheel_t *wheel, uvwheel_post_t *post, uvwheel_post_cb cb)
{
  int error = 0;

  if (!is_wheel(wheel) || post == NULL || cb == NULL || !wheel->has_mailbox)
    return UV_EINVAL;
  uv_mutex_lock(&wheel->mutex);
  if (wheel->is_mailbox_closed) {
    error = UV_ECANCELED;
  } else {
    post->next = NULL;
    post->cb = cb;
    *wheel->posted_end = post;
    wheel->posted_end = &post->next;
    (void)uv_async_send(&wheel->async);
  }
  uv_mutex_unlock(&wheel->mutex);
  return error;
}
