/* SPDX-License-Identifier: MIT */

/* The mailbox, as the wheel's init and close see it. mailbox.c explains it. */

#ifndef UVWHEEL_MAILBOX_H
#define UVWHEEL_MAILBOX_H

#include "loop.h"

void uvwheel__init_mailbox(uvwheel_t *wheel);

/* Is nothing queued that the loop will call back? */
bool uvwheel__is_mailbox_empty(const uvwheel_t *wheel);

/* Refuses posts from now on. */
void uvwheel__close_mailbox(uvwheel_t *wheel);

/* Calls back what was posted before, with UV_ECANCELED. */
void uvwheel__cancel_posts(uvwheel_t *wheel);

/* The callback of its uv_async_t, by which uvwheel_owns_handle knows that. */
void uvwheel__on_wake(uv_async_t *async);

#endif /* UVWHEEL_MAILBOX_H */
