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
 * with Parallelism", 1986), by compare-and-swap. The loop never pops from it:
 * it takes the whole stack by one exchange, in which no thread can hold it up,
 * and turns it round. That nobody pops is why there is no ABA problem: a push
 * needs nothing but that the newest request is still, or is again, the one that
 * it has linked to. A push is one step, so that the loop never finds a request
 * without the ones before it.
 *
 * Only the push that finds the stack empty wakes the loop. It counts itself as
 * a waker first: its request may be completed, and the wheel be closed, while
 * it is still about to call uv_async_send. The others do not touch the mailbox
 * after their push; counting them as well costs a third of the throughput. (A
 * waker that loses its processor before it has called holds up those behind it,
 * as one does that holds a lock, though nobody has to wait in a call.)
 *
 * What the memory orders are for: the loop's exchange acquires what the pushes
 * release, the requests and the count of wakers. And a push that finds the
 * stack empty acquires what the exchange that emptied it released: libuv's flag
 * that the loop was woken, which the loop had taken back before. Otherwise the
 * push might see that flag still up, and wake nobody. */

#include "uvwheel.h"

#include "binding.h"

/* uvwheel_mailbox_t.newest, if not the address of a request */
#define EMPTY ((uintptr_t)0)
#define CLOSED ((uintptr_t)1) /* for good */

/* ---- The loop's side ---------------------------------------------------- */

/* Takes what was posted, and leaves EMPTY or CLOSED. */
static void
take(uvwheel_mailbox_t *mailbox, uintptr_t leave)
{
  uvwheel_post_t *post, *next, *oldest = NULL, **end;

  post = (uvwheel_post_t *)ATOMIC_EXCHANGE(&mailbox->newest, leave);
  end = post == NULL ? mailbox->end : &post->next;
  for (; post != NULL; post = next) {
    next = post->next;
    post->next = oldest;
    oldest = post;
  }
  *mailbox->end = oldest;
  mailbox->end = end;
}

/* Completes the first request. Its memory may be gone then. */
static void
complete_first(uvwheel_mailbox_t *mailbox, bool canceled)
{
  uvwheel_post_t *post = mailbox->first;
  int status = UV_ECANCELED;

  mailbox->first = post->next;
  if (mailbox->first == NULL)
    mailbox->end = &mailbox->first;
  uvwheel__check_unqueued(post);
  if (!canceled && post->operation != NULL)
    status = post->operation(post->timer);
  else if (!canceled)
    status = uvwheel_timer_start(post->timer, post->timer_cb, post->timeout,
                                 post->repeat);
  if (post->cb != NULL)
    post->cb(post, status);
}

/* What is posted meanwhile wakes the loop anew. */
static void
on_wake(uv_async_t *async)
{
  uvwheel_mailbox_t *mailbox = CONTAINER_OF(async, uvwheel_mailbox_t, async);
  uint64_t budget = mailbox->wheel->turn_budget;

  uvwheel__adopt_thread(mailbox->wheel);
  take(mailbox, EMPTY);
  while (mailbox->first != NULL && !uv_is_closing((uv_handle_t *)async)) {
    if (budget-- == 0) {
      (void)uv_async_send(async);
      return;
    }
    complete_first(mailbox, false);
  }
}

void
uvwheel__mailbox_close(uvwheel_mailbox_t *mailbox)
{
  take(mailbox, CLOSED);
  while (ATOMIC_LOAD(&mailbox->wakers) != 0)
    uv_sleep(0); /* they have but a system call to make */
}

void
uvwheel__mailbox_cancel(uvwheel_mailbox_t *mailbox)
{
  while (mailbox->first != NULL)
    complete_first(mailbox, true);
}

int
uvwheel_mailbox_init(uvwheel_t *wheel, uvwheel_mailbox_t *mailbox)
{
  int error;

  if (wheel == NULL || wheel->loop == NULL || mailbox == NULL)
    return UV_EINVAL;
  uvwheel__check_thread(wheel, NULL);
  if (is_closing(wheel))
    return UV_EINVAL;
  if (wheel->mailbox != NULL)
    return UV_EALREADY;
  error = uv_async_init(wheel->loop, &mailbox->async, on_wake);
  if (error != 0)
    return error;
  mailbox->async.data = NULL;
  mailbox->wheel = wheel;
  mailbox->first = NULL;
  mailbox->end = &mailbox->first;
  mailbox->newest = EMPTY;
  mailbox->wakers = 0;
  wheel->mailbox = mailbox;
  uvwheel__update_ref(wheel);
  return 0;
}

/* ---- The threads' side -------------------------------------------------- */

/* After the push the request may be gone, and the mailbox, unless it waits for
 * this waker, too. */
static int
push(uvwheel_post_t *post, uvwheel_mailbox_t *mailbox, uvwheel_timer_t *timer,
     int (*operation)(uvwheel_timer_t *), uvwheel_post_cb cb)
{
  uintptr_t newest;
  bool is_waker = false;

  if (post == NULL || mailbox == NULL || timer == NULL)
    return UV_EINVAL;
  uvwheel__check_queued(mailbox, post);
  post->timer = timer;
  post->operation = operation;
  post->cb = cb;
  newest = ATOMIC_LOAD(&mailbox->newest);
  do {
    if (newest == EMPTY && !is_waker) {
      ATOMIC_ADD(&mailbox->wakers, 1);
      is_waker = true;
    }
    post->next = (uvwheel_post_t *)newest;
  } while (newest != CLOSED &&
           !ATOMIC_REPLACE(&mailbox->newest, &newest, (uintptr_t)post));
  if (newest == EMPTY)
    (void)uv_async_send(&mailbox->async);
  if (is_waker)
    ATOMIC_ADD(&mailbox->wakers, (uintptr_t)-1);
  if (newest != CLOSED)
    return 0;
  uvwheel__check_unqueued(post);
  return UV_ECANCELED;
}

int
uvwheel_post_start(uvwheel_post_t *post, uvwheel_mailbox_t *mailbox,
                   uvwheel_timer_t *timer, uvwheel_timer_cb timer_cb,
                   uint64_t timeout, uint64_t repeat, uvwheel_post_cb cb)
{
  if (post == NULL || timer_cb == NULL)
    return UV_EINVAL;
  post->timer_cb = timer_cb;
  post->timeout = timeout;
  post->repeat = repeat;
  return push(post, mailbox, timer, NULL, cb);
}

int
uvwheel_post_refresh(uvwheel_post_t *post, uvwheel_mailbox_t *mailbox,
                     uvwheel_timer_t *timer, uvwheel_post_cb cb)
{
  return push(post, mailbox, timer, uvwheel_timer_refresh, cb);
}

int
uvwheel_post_stop(uvwheel_post_t *post, uvwheel_mailbox_t *mailbox,
                  uvwheel_timer_t *timer, uvwheel_post_cb cb)
{
  return push(post, mailbox, timer, uvwheel_timer_stop, cb);
}
