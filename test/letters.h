/* SPDX-License-Identifier: MIT */

/* What the tests of the mailbox share: a mailbox on the wheel of support.h, and
 * requests that watch how they are completed. */

#ifndef LETTERS_H
#define LETTERS_H

#include "support.h"

extern uvwheel_mailbox_t mailbox;

/* Opens the wheel and makes its mailbox. */
void open_mailbox(const uvwheel_options_t *options);

typedef struct letter_s letter_t;

struct letter_s {
  uvwheel_post_t post;
  unsigned completed;
  unsigned place; /* among all that were completed, from 0 on */
  int status;
  void (*then)(letter_t *); /* what the callback does; NULL for nothing */
};

/* How many were completed in all. */
extern unsigned completed_in_all;

/* The callback of all letters; asserts that the probe was not forgotten. */
void on_letter(uvwheel_post_t *post, int status);

/* The functions of the names, with requests in memory full of garbage; they
 * must succeed. */
void send_start(letter_t *letter, probe_t *probe, uint64_t timeout,
                uint64_t repeat);
void send_refresh(letter_t *letter, probe_t *probe);
void send_stop(letter_t *letter, probe_t *probe);

/* Sends the letters in turn, each to start its probe. */
void send_all(letter_t *letters, probe_t *probes, size_t count);

/* The letter was completed once, with the status, at the place. */
void expect_completed(const letter_t *letter, int status, unsigned place);

#endif /* LETTERS_H */
