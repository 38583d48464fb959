/* SPDX-License-Identifier: MIT */

/* Operations on the mailbox of a wheel. All of it happens on the loop's thread,
 * where the model knows which requests a turn of the loop has to carry out: the
 * oldest of those that wait when it is about to poll, as many as turn_budget
 * says. Of those without a callback it learns by the next one that has one, or
 * after the poll. */

#include <stdlib.h>
#include <string.h>

#include "game.h"

typedef enum kind_e { START, REFRESH, STOP, KINDS } kind_t;

typedef struct order_s {
  kind_t kind;
  bool silent; /* no callback */
  uint64_t timeout;
  uint64_t repeat;
} order_t;

/* Allocated one by one, so that a use after free shows. */
struct request_s {
  uvwheel_post_t post;
  order_t order;
  unsigned index;
};

/* ---- What the model knows ------------------------------------------------ */

bool
is_mailbox_open(void)
{
  return game.mail.mailbox != NULL && !game.mail.closed &&
         (game.state == OPEN || game.state == FOREIGN);
}

bool
is_posted(unsigned index)
{
  unsigned i;

  for (i = 0; i < game.mail.count; i++)
    if (game.mail.posts[i]->index == index)
      return true;
  return false;
}

static void
free_request(request_t *request)
{
  memset(request, 0x5A, sizeof *request);
  free(request);
}

static const request_t *
next_request(void)
{
  EXPECT(game.mail.followed < game.mail.count);
  return game.mail.posts[game.mail.followed];
}

/* The next request is completed. Returns the status it has to have. */
static int
follow(void)
{
  const request_t *request = next_request();
  const order_t *order = &request->order;

  game.mail.followed++;
  if (game.state == CLOSING)
    return UV_ECANCELED;
  EXPECT(is_mailbox_open() && game.mail.in_turn > 0);
  game.mail.in_turn--;
  switch (order->kind) {
  case START:
    return expect_start(request->index, order->timeout, order->repeat);
  case REFRESH:
    return expect_refresh(request->index);
  default:
    return expect_stop(request->index);
  }
}

static void
follow_silent(void)
{
  EXPECT(next_request()->order.silent);
  follow();
}

/* Also those before it are the caller's again. */
static void
forget_followed(const request_t *request)
{
  mail_t *mail = &game.mail;
  unsigned i;

  for (i = 0; i < mail->followed; i++)
    if (mail->posts[i] != request)
      free_request(mail->posts[i]);
  mail->count -= mail->followed;
  memmove(mail->posts, mail->posts + mail->followed,
          mail->count * sizeof *mail->posts);
  mail->followed = 0;
}

void
on_before_poll(uv_prepare_t *prepare)
{
  uint64_t waiting = game.mail.count - game.mail.followed;

  (void)prepare;
  if (waiting > game.options.turn_budget)
    waiting = game.options.turn_budget;
  game.mail.in_turn = is_mailbox_open() ? waiting : 0;
}

/* All that had to be carried out has been, unless the mailbox was closed. */
void
on_after_poll(uv_check_t *check)
{
  (void)check;
  while (is_mailbox_open() && game.mail.in_turn > 0)
    follow_silent();
  verify();
}

void
verify_no_posts(void)
{
  while (game.mail.followed < game.mail.count)
    follow_silent();
}

void
free_mailbox(void)
{
  unsigned i;

  for (i = 0; i < game.mail.count; i++)
    free_request(game.mail.posts[i]);
  if (game.mail.mailbox != NULL)
    memset(game.mail.mailbox, 0x5A, sizeof *game.mail.mailbox);
  free(game.mail.mailbox);
  memset(&game.mail, 0, sizeof game.mail);
}

/* ---- Posting ------------------------------------------------------------- */

static void on_posted(uvwheel_post_t *post, int status);

static int
post_request(request_t *request)
{
  const order_t *order = &request->order;
  uvwheel_timer_t *timer = &game.timers[request->index].holder->timer;
  uvwheel_post_cb cb = order->silent ? NULL : on_posted;

  switch (order->kind) {
  case START:
    return uvwheel_post_start(&request->post, game.mail.mailbox, timer, on_fire,
                              order->timeout, order->repeat, cb);
  case REFRESH:
    return uvwheel_post_refresh(&request->post, game.mail.mailbox, timer, cb);
  default:
    return uvwheel_post_stop(&request->post, game.mail.mailbox, timer, cb);
  }
}

/* A request that is not queued is freed. */
static void
queue(request_t *request)
{
  int expected = game.state == CLOSING ? UV_ECANCELED : 0;

  EXPECT(post_request(request) == expected);
  if (expected == 0)
    game.mail.posts[game.mail.count++] = request;
  else
    free_request(request);
}

/* Is there a mailbox, and does the model have room for one more request? */
static bool
can_post(void)
{
  return game.mail.mailbox != NULL && game.mail.count < MOST_POSTS;
}

static void
on_posted(uvwheel_post_t *post, int status)
{
  request_t *request = (request_t *)post;
  unsigned index = request->index;

  EXPECT(game.in_run || game.state == CLOSING);
  while (next_request() != request)
    follow_silent();
  EXPECT(status == follow());
  EXPECT(post->timer == &game.timers[index].holder->timer);
  forget_followed(request);
  verify();
  if (pick(&game.bytes, 4) == 1) {
    queue(request);
  } else {
    if (request->order.kind == STOP && !is_posted(index))
      free_timer(index);
    free_request(request);
  }
  operate_inside();
}

/* ---- Operations ---------------------------------------------------------- */

static void
take_order(order_t *order)
{
  order->kind = (kind_t)pick(&game.bytes, KINDS);
  order->timeout = order->kind == START ? take_delay() : 0;
  order->repeat = order->kind == START ? take_repeat() : 0;
}

static void
post_order(unsigned index, const order_t *order, bool silent)
{
  request_t *request = malloc(sizeof *request);

  EXPECT(request != NULL);
  memset(request, 0xA5, sizeof *request);
  request->order = *order;
  request->order.silent = silent;
  request->index = index;
  queue(request);
}

void
post(void)
{
  unsigned index;
  order_t order;

  if (!can_post() || pick_timer(&index) == NULL)
    return;
  take_order(&order);
  post_order(index, &order, pick(&game.bytes, 4) == 1);
}

void
post_many(void)
{
  order_t order;
  uint64_t silent;
  unsigned i;

  take_order(&order);
  silent = take(&game.bytes, 1);
  for (i = 0; i < game.model.capacity && can_post(); i++)
    if (game.timers[i].holder != NULL)
      post_order(i, &order, silent >> i % 8 & 1);
}

void
post_nothing(void)
{
  unsigned index;
  uvwheel_timer_t *timer = pick_timer(&index);
  uvwheel_mailbox_t *mailbox = game.mail.mailbox;
  uvwheel_post_t request;

  EXPECT(uvwheel_post_start(&request, mailbox, timer, NULL, 1, 1, on_posted) ==
         UV_EINVAL);
  EXPECT(uvwheel_post_refresh(NULL, mailbox, timer, on_posted) == UV_EINVAL);
  EXPECT(uvwheel_post_stop(&request, mailbox, NULL, on_posted) == UV_EINVAL);
}

void
open_mailbox(void)
{
  uvwheel_mailbox_t *mailbox;
  int expected = game.state != OPEN          ? UV_EINVAL
                 : game.mail.mailbox != NULL ? UV_EALREADY
                                             : 0;

  if (game.state == GONE)
    return;
  mailbox = malloc(sizeof *mailbox);
  EXPECT(mailbox != NULL);
  memset(mailbox, 0xA5, sizeof *mailbox);
  EXPECT(uvwheel_mailbox_init(game.wheel, mailbox) == expected);
  if (expected == 0)
    game.mail.mailbox = mailbox;
  else
    free(mailbox);
}
