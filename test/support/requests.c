/* SPDX-License-Identifier: MIT */

#include "requests.h"

letter_t letters[LETTERS];
unsigned called_in_all;

static void
setup(void)
{
  memset(letters, 0, sizeof letters);
  called_in_all = 0;
}

TCase *
letters_tcase(Suite *suite, const char *name)
{
  TCase *tcase = loop_tcase(suite, name);

  tcase_add_checked_fixture(tcase, setup, NULL);
  return tcase;
}

void
open_mailbox(const uvwheel_options_t *options)
{
  open_wheel_with(options);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
}

void
on_letter(uvwheel_post_t *post, int status)
{
  letter_t *letter = post->data;

  ck_assert_ptr_eq(post, &letter->post);
  if (letter->probe != NULL) {
    letter->started =
        uvwheel_timer_start(&letter->probe->timer, on_probe, 50, 0);
    letter->probe->due_ms = uvwheel_now(&wheel) + 50;
  }
  letter->place = called_in_all++;
  letter->called++;
  letter->status = status;
  if (letter->then != NULL)
    letter->then(letter);
}

void
send_letter(letter_t *letter, probe_t *probe)
{
  letter->probe = probe;
  memset(&letter->post, 0xA5, sizeof letter->post);
  letter->post.data = letter;
  ck_assert_int_eq(uvwheel_post(&wheel, &letter->post, on_letter), 0);
}

void
send_all(letter_t *first, probe_t *probes, size_t count)
{
  size_t i;

  for (i = 0; i < count; i++)
    send_letter(&first[i], &probes[i]);
}

void
expect_called(const letter_t *letter, int status, unsigned place)
{
  ck_assert_uint_eq(letter->called, 1);
  ck_assert_int_eq(letter->status, status);
  ck_assert_uint_eq(letter->place, place);
}
