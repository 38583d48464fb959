/* SPDX-License-Identifier: MIT */

#include "letters.h"

uvwheel_mailbox_t mailbox;
unsigned completed_in_all;

void
open_mailbox(const uvwheel_options_t *options)
{
  completed_in_all = 0;
  open_wheel_with(options);
  memset(&mailbox, 0xA5, sizeof mailbox);
  ck_assert_int_eq(uvwheel_mailbox_init(&wheel, &mailbox), 0);
}

void
on_letter(uvwheel_post_t *post, int status)
{
  letter_t *letter = post->data;
  probe_t *probe = (probe_t *)post->timer;

  ck_assert_ptr_eq(post, &letter->post);
  if (uvwheel_timer_is_active(post->timer))
    probe->due_ms = uv_now(&loop) + uvwheel_timer_get_due_in(post->timer);
  letter->place = completed_in_all++;
  letter->completed++;
  letter->status = status;
  if (letter->then != NULL)
    letter->then(letter);
}

static uvwheel_post_t *
fill_with_garbage(letter_t *letter)
{
  memset(&letter->post, 0xA5, sizeof letter->post);
  letter->post.data = letter;
  return &letter->post;
}

void
send_start(letter_t *letter, probe_t *probe, uint64_t timeout, uint64_t repeat)
{
  ck_assert_int_eq(uvwheel_post_start(fill_with_garbage(letter), &mailbox,
                                      &probe->timer, on_probe, timeout, repeat,
                                      on_letter),
                   0);
}

void
send_refresh(letter_t *letter, probe_t *probe)
{
  ck_assert_int_eq(uvwheel_post_refresh(fill_with_garbage(letter), &mailbox,
                                        &probe->timer, on_letter),
                   0);
}

void
send_stop(letter_t *letter, probe_t *probe)
{
  ck_assert_int_eq(uvwheel_post_stop(fill_with_garbage(letter), &mailbox,
                                     &probe->timer, on_letter),
                   0);
}

void
send_all(letter_t *letters, probe_t *probes, size_t count)
{
  size_t i;

  for (i = 0; i < count; i++)
    send_start(&letters[i], &probes[i], 50, 0);
}

void
expect_completed(const letter_t *letter, int status, unsigned place)
{
  ck_assert_uint_eq(letter->completed, 1);
  ck_assert_int_eq(letter->status, status);
  ck_assert_uint_eq(letter->place, place);
}
