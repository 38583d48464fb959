/* SPDX-License-Identifier: MIT */

/* Misuse that is undefined elsewhere, and that a -Dchecks=true build reports.
 * In other builds the macros do nothing. */

#ifndef UVWHEEL_MISUSE_H
#define UVWHEEL_MISUSE_H

#include "uvwheel/wheel.h"

#ifdef UVWHEEL_CHECKS

/* Reports what is wrong with the wheel and the entry, if any, and aborts. */
_Noreturn void uvwheel__misuse(const uvwheel_core_t *core,
                               const uvwheel_entry_t *entry, const char *what);

#define MISUSE_IF(condition, core, entry, what) \
  ((condition) ? uvwheel__misuse(core, entry, what) : (void)0)

#define OVERWRITTEN "its links were overwritten, or it was freed while active"
#define MISUSE_IF_OVERWRITTEN(core, link)                                 \
  MISUSE_IF((link)->prev->next != (link) || (link)->next->prev != (link), \
            core, entry_of(link), OVERWRITTEN)

/* What the link of an idle entry holds, so that its use shows. */
#define POISON ((uvwheel_link_t *)(uintptr_t)0xdeadbeef)

/* ---- The binding's ------------------------------------------------------ */

struct uvwheel_s;
struct uvwheel_timer_s;
struct uvwheel_post_s;
struct uv_prepare_s;

/* The callback before each poll, and what is called after it: in between the
 * loop is this thread's. */
void uvwheel__enter_loop(struct uv_prepare_s *before_poll);
void uvwheel__leave_loop(struct uvwheel_s *wheel);

/* Aborts if the loop runs on another thread. */
void uvwheel__expect_thread(const struct uvwheel_s *wheel,
                            const struct uvwheel_timer_s *timer);

/* Aborts if the memory holds an active timer of any wheel. */
void uvwheel__expect_idle(const struct uvwheel_timer_s *timer);

/* The wheel is initialised; aborts if it was not closed before. From now on
 * uvwheel__enter_loop is called before each poll. */
void uvwheel__register(struct uvwheel_s *wheel);
/* The wheel is closed. */
void uvwheel__unregister(struct uvwheel_s *wheel);

/* The request is queued; aborts if it was already. */
void uvwheel__register_post(const struct uvwheel_s *wheel,
                            struct uvwheel_post_s *post);
/* The request is not queued any more. */
void uvwheel__unregister_post(struct uvwheel_post_s *post);

#else

#define uvwheel__leave_loop(wheel) ((void)0)
#define uvwheel__expect_thread(wheel, timer) ((void)0)
#define uvwheel__expect_idle(timer) ((void)0)
#define uvwheel__register(wheel) ((void)0)
#define uvwheel__unregister(wheel) ((void)0)
#define uvwheel__register_post(wheel, post) ((void)0)
#define uvwheel__unregister_post(post) ((void)0)

#define MISUSE_IF(condition, core, entry, what) \
  ((void)sizeof(condition), (void)(core))
#define MISUSE_IF_OVERWRITTEN(core, link) ((void)(core))

#endif

#endif /* UVWHEEL_MISUSE_H */
