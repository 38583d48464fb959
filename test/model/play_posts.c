/* SPDX-License-Identifier: MIT */

/* Operations on the mailbox of a wheel. All of it happens on the loop's thread,
 * where the model knows which requests an iteration has to call back: those
 * that are left of what the loop has taken, else the oldest of those that wait
 * when it is about to poll; at most turn_budget, and as many as fit into
 * turn_ms. Those that are posted meanwhile may come, too. */

#include <stdlib.h>
#include <string.h>

#include "game.h"

/* ---- What the model knows ------------------------------------------------ */

bool is_mailbox_open(void) {
  return game.mail.opened && !game.mail.closed &&
         (game.state == OPEN || game.state == FOREIGN);
}

bool has_posts(void) {
  return is_mailbox_open() && game.mail.count > 0;
}

void on_before_poll(uv_prepare_t *prepare) {
  mail_t *mail = &game.mail;

  (void)prepare;
  mail->allowed = is_mailbox_open() ? game.options.turn_budget : 0;
  mail->expected =
      min_of(mail->left > 0 ? mail->left : mail->count, mail->allowed);
  mail->is_fresh = true;
  game.spent_since_poll_ns = 0;
  end_turn();
  game.turns.since_poll = 0;
  game.turns.is_polled = true;
  game.turns.was_rewound = is_rewound();
  verify_game();
}

/* In a run; a wheel that wakes its loop more often would do so for ever. */
#define MOST_POLLS 1000000

/* All that had to be called back has been, unless the mailbox was closed or the
 * time was up. */
void on_after_poll(uv_check_t *check) {
  uint64_t stalled_ms = game.turns.stalled_ms;

  (void)check;
  game.turns.stalled_ms = 0;
  end_turn();
  require(game.stalls.sum_ms >= stalled_ms || game.state != OPEN);
  if (is_mailbox_open() && game.mail.expected > 0)
    require(!game.mail.is_fresh && game.mail.is_time_over);
  require(++game.polls_in_run < MOST_POLLS);
  game.turns.is_polled = false;
  game.turns.was_noisy = has_posts();
  game.has_polled = true;
  game.polled_ms = now_ms();
  verify_game();
}

void verify_no_posts(void) {
  require(game.mail.count == 0);
}

/* ---- Posting ------------------------------------------------------------- */

static void on_posted(uvwheel_post_t *post, int status);

/* Each is allocated, so that a use after free shows. One that is refused is as
 * it was. */
static void queue(uvwheel_post_t *post) {
  uvwheel_post_t before = *post;
  int expected = !game.mail.opened       ? UV_EINVAL
                 : game.state == CLOSING ? UV_ECANCELED
                                         : 0;

  require(uvwheel_post(game.wheel, post, on_posted) == expected);
  if (expected == 0) {
    game.mail.posts[game.mail.count++] = post;
    return;
  }
  require(memcmp(post, &before, sizeof before) == 0);
  free(post);
}

/* The request that is called back is the oldest. */
static void forget(const uvwheel_post_t *post) {
  mail_t *mail = &game.mail;

  require(mail->count > 0 && mail->posts[0] == post);
  mail->count--;
  memmove(mail->posts, mail->posts + 1, mail->count * sizeof *mail->posts);
}

static void on_posted(uvwheel_post_t *post, int status) {
  forget(post);
  if (game.state == CLOSING) {
    require(status == UV_ECANCELED);
  } else {
    require(status == 0 && game.in_run);
    require(is_mailbox_open() && game.mail.allowed > 0);
    game.mail.allowed--;
    game.mail.expected -= game.mail.expected > 0;
    if (game.mail.is_fresh) {
      game.mail.batch =
          game.mail.left > 0 ? game.mail.left : game.mail.count + 1;
      begin_callbacks();
    }
    require(game.mail.batch > 0);
    game.mail.batch--;
    game.mail.is_fresh = false;
    count_one_callback();
  }
  verify_game();
  if (pick(&game.bytes, 4) == 1) {
    queue(post);
  } else {
    memset(post, 0x5A, sizeof *post);
    free(post);
  }
  operate_inside();
  game.mail.is_time_over = is_time_over();
  /* At the end the loop takes what waits by then, for its next call. */
  game.mail.left = game.mail.batch > 0 ? game.mail.batch : game.mail.count;
}

/* ---- Operations ---------------------------------------------------------- */

void post(void) {
  uvwheel_post_t *request;

  if (game.state == GONE || game.mail.count == MAX_POSTS)
    return;
  request = malloc(sizeof *request);
  require(request != NULL);
  memset(request, 0xA5, sizeof *request);
  queue(request);
}

void post_many(void) {
  uint64_t count = 2 * take(&game.bytes, 1);

  while (count-- > 0)
    post();
}

void open_mailbox(void) {
  int expected = game.state != OPEN ? UV_EINVAL
                 : game.mail.opened ? UV_EALREADY
                                    : 0;

  if (game.state == GONE)
    return;
  require(uvwheel_open_mailbox(game.wheel) == expected);
  game.mail.opened = game.mail.opened || expected == 0;
}
