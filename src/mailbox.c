/* SPDX-License-Identifier: MIT */

/* The mailbox: how other threads reach the timers of a loop.
 *
 *   threads                                the loop
 *
 *   post 4 ---.                            take all, turn them round
 *              v                                  |
 *   newest -> 3 -> 2 -> 1 -> nothing       first -> 1 -> 2 -> 3 -> end
 *
 * The threads push onto a stack (R. K. Treiber, "Systems Programming: Coping
 * with Parallelism", 1986) by compare-and-swap. The loop never pops: it takes
 * the whole stack by one exchange, in which no thread can hold it up, and
 * reverses it. Because nobody pops there is no ABA problem: a push only needs
 * the newest request to be the one that it has linked to. A push is one step,
 * so the loop never finds a request without the ones before it.
 *
 * Only the push that finds the stack empty wakes the loop. It counts itself as
 * a waker first: its request may be called back, and the wheel closed, while it
 * is about to call uv_async_send. The others do not touch the wheel after their
 * push; to count them as well costs a third of the throughput. (A waker that is
 * preempted before that call delays the requests behind it, but no thread waits
 * in a call.)
 *
 * Memory order. The loop's exchange acquires what the pushes release: the
 * requests and the count of wakers. A push that finds the stack empty acquires
 * what the exchange that emptied it released: libuv's flag that a wake-up is
 * pending, which the loop had cleared before. Otherwise the push could see the
 * flag set, and wake nobody. A push that is refused acquires what the close
 * released, so its thread may free the timer that the close has stopped. */

#include "mailbox.h"

#include "batch.h"
#include "portable.h"
#include "turn.h"

/* uvwheel_t.newest, if not the address of a request */
#define EMPTY ((uintptr_t)0)
#define CLOSED ((uintptr_t)1) /* for good */
#define UNOPENED ((uintptr_t)2)

/* ---- The loop's side ---------------------------------------------------- */

/* Takes what was posted, in order, and leaves EMPTY or CLOSED. */
static void
take(uvwheel_t *wheel, uintptr_t leave)
{
  uvwheel_post_t *post, *next, *oldest = NULL, **end;

  post = (uvwheel_post_t *)ATOMIC_EXCHANGE(&wheel->newest, leave);
  end = post == NULL ? wheel->end : &post->next;
  for (; post != NULL; post = next) {
    next = post->next;
    post->next = oldest;
    oldest = post;
  }
  *wheel->end = oldest;
  wheel->end = end;
}

/* Calls back the first request, whose callback may free it. */
static void
call_first(uvwheel_t *wheel, int status)
{
  uvwheel_post_t *post = wheel->first;

  wheel->first = post->next;
  if (wheel->first == NULL)
    wheel->end = &wheel->first;
  uvwheel__unregister_post(post);
  post->cb(post, status);
}

/* What is posted meanwhile wakes the loop again. */
void
uvwheel__on_wake(uv_async_t *async)
{
  uvwheel_t *wheel = CONTAINER_OF(async, uvwheel_t, async);
  uint64_t budget = wheel->turn_budget;
  batch_t batch;

  take(wheel, EMPTY);
  uvwheel__begin_batch(wheel, &batch);
  while (wheel->first != NULL && budget-- != 0 && !batch.is_over &&
         !uv_is_closing((uv_handle_t *)async)) {
    call_first(wheel, 0);
    uvwheel__count_callback(wheel, &batch);
  }
  uvwheel__end_batch(wheel, &batch);
  if (wheel->first != NULL && !uv_is_closing((uv_handle_t *)async))
    (void)uv_async_send(async);
}

void
uvwheel__init_mailbox(uvwheel_t *wheel)
{
  wheel->end = &wheel->first;
  wheel->newest = UNOPENED;
}

bool
uvwheel__is_mailbox_empty(const uvwheel_t *wheel)
{
  return uv_is_closing((const uv_handle_t *)&wheel->async) ||
         (wheel->first == NULL && ATOMIC_LOAD(&wheel->newest) <= UNOPENED);
}

void
uvwheel__close_mailbox(uvwheel_t *wheel)
{
  take(wheel, CLOSED);
  /* Each has one system call left. A sleep of 0 would let no thread of lower
   * priority run. */
  while (ATOMIC_LOAD(&wheel->wakers) != 0)
    uv_sleep(1);
}

void
uvwheel__cancel_posts(uvwheel_t *wheel)
{
  while (wheel->first != NULL)
    call_first(wheel, UV_ECANCELED);
}

int
uvwheel_open_mailbox(uvwheel_t *wheel)
{
  int error;

  if (!is_wheel(wheel) || is_closing(wheel))
    return UV_EINVAL;
  if (wheel->flags & HAS_MAILBOX)
    return UV_EALREADY;
  error = uv_async_init(wheel->loop, &wheel->async, uvwheel__on_wake);
  if (error != 0)
    return error;
  wheel->flags |= HAS_MAILBOX;
  uvwheel__update_ref(wheel);
  (void)ATOMIC_EXCHANGE(&wheel->newest, EMPTY);
  return 0;
}

/* ---- The threads' side -------------------------------------------------- */

/* Pushes the request unless the mailbox is closed. Returns CLOSED then, else
 * the newest request before. After the push this request may be freed, and so
 * may the wheel, unless it waits for this waker. */
static uintptr_t
push(uvwheel_t *wheel, uvwheel_post_t *post, uintptr_t newest)
{
  bool is_waker = false;

  do {
    if (newest == EMPTY && !is_waker) {
      ATOMIC_ADD(&wheel->wakers, 1);
      is_waker = true;
    }
    post->next = (uvwheel_post_t *)newest;
  } while (newest != CLOSED &&
           !ATOMIC_REPLACE(&wheel->newest, &newest, (uintptr_t)post));
  if (newest == EMPTY)
    (void)uv_async_send(&wheel->async);
  if (is_waker)
    ATOMIC_ADD(&wheel->wakers, (uintptr_t)-1);
  return newest;
}

int
uvwheel_post(uvwheel_t *wheel, uvwheel_post_t *post, uvwheel_post_cb cb)
{
  uvwheel_post_t *next_before;
  uvwheel_post_cb cb_before;
  uintptr_t newest;

  if (wheel == NULL || wheel->loop == NULL || post == NULL || cb == NULL)
    return UV_EINVAL;
  newest = ATOMIC_LOAD(&wheel->newest);
  if (newest == UNOPENED)
    return UV_EINVAL;
  if (newest == CLOSED)
    return UV_ECANCELED;
  uvwheel__register_post(wheel, post);
  next_before = post->next;
  cb_before = post->cb;
  post->cb = cb;
  if (push(wheel, post, newest) != CLOSED)
    return 0;
  post->next = next_before; /* it was closed in between */
  post->cb = cb_before;
  uvwheel__unregister_post(post);
  return UV_ECANCELED;
}
