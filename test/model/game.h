/* SPDX-License-Identifier: MIT */

/* A wheel on a real loop in virtual time, and what its model knows. */

#ifndef GAME_H
#define GAME_H

#include <uv.h>

#include "model.h"
#include "operations.h"
#include "play.h"
#include "stalls.h"
#include "uvwheel.h"

/* Requests that wait: more than some turns carry out. */
#define MAX_POSTS (2 * MODEL_TIMERS)

typedef enum wheel_state_e {
  OPEN,
  FOREIGN, /* others have closed the handles that drive the wheel */
  CLOSING, /* uvwheel_close was called */
  GONE,    /* and told that the memory may be reused */
} wheel_state_t;

/* Allocated one by one, so that a use after free shows. */
typedef struct holder_s {
  uvwheel_timer_t timer;
  unsigned index;
} holder_t;

/* What the model of the core does not know of a timer. */
typedef struct armed_s {
  holder_t *holder;
  bool started; /* ever, since its init */
  bool closed;  /* by uvwheel_close, or its init has failed */
  bool failed;
  bool unrefd;
  uint64_t timeout;
  uint64_t repeat;
  uvwheel_missed_t missed;
  /* It has to fire exactly at its tick, unless a turn is cut meanwhile: the
   * loop's time was right and the clock has not been moved past it. */
  bool punctual;
  uint64_t cuts;
  silence_t silence;
} armed_t;

/* The mailbox of the wheel. */
typedef struct mail_s {
  bool opened;
  bool closed; /* its uv_async_t, by others                         */
  uvwheel_post_t *posts[MAX_POSTS];
  unsigned count;    /* of posts, the oldest first                        */
  uint64_t allowed;  /* how many more this iteration may call back        */
  uint64_t expected; /* and how many more it has to call back             */
  unsigned left;     /* of those that the loop has taken                  */
  unsigned batch;    /* of those left when its present call began         */
  bool is_fresh;     /* it has called none yet                            */
  bool is_time_over; /* after the last one                                */
} mail_t;

typedef struct turns_s {
  uint64_t count;
  uint64_t cut;
  unsigned since_poll; /* turns since the last poll began: at most one */
  bool was_rewound;    /* since the last poll, or it is behind still   */
  bool in_turn;        /* a turn has begun, and may not have ended     */
  bool is_polled;      /* a poll has begun; or the check is over       */
  bool was_noisy;      /* requests waited when the last check was over */
  uint64_t until_ms;   /* the turn fires no timer with a later tick    */
  uint64_t begin_ns;   /* of the turn that calls back                  */
  uint64_t began_ms;   /* the loop's time at that                      */
  uint64_t stalled_ms; /* so much the next check has noticed, in all   */
  unsigned unread;     /* callbacks after its time was over            */
} turns_t;

typedef struct game_s {
  bytes_t bytes;
  uv_loop_t loop;
  uv_timer_t stopper;
  uv_prepare_t before_poll;
  uv_check_t after_poll;
  uvwheel_t *wheel;
  wheel_state_t state;
  uvwheel_options_t options;
  bool unrefd;
  model_t model;
  armed_t timers[MODEL_TIMERS];
  mail_t mail;
  turns_t turns;
  stalls_t stalls;
  unsigned foreign_closes; /* of others, whose callback has not run yet */
  bool closes_late;        /* the wheel, if others closed its handles */
  uint64_t fired;
  uint64_t fired_early;
  uint64_t stopped;
  uint64_t lateness_sum_ms;
  uint64_t lateness_max_ms;
  unsigned fired_in_run; /* in their time */
  unsigned polls_in_run;
  uint64_t spent_in_run_ns;     /* by callbacks */
  uint64_t spent_since_poll_ns; /* by them, since the last one began */
  uint64_t used; /* what takes from budgets, before the run before this one */
  uint64_t used_before_run;
  bool was_due; /* something, before the next run, or maybe */
  bool drew_in_run;
  uint64_t polled_ms; /* after the last poll */
  bool has_polled; /* since the wheel was empty                              */
  uint64_t rewound_to_ms; /* the clock was set back; then it had been this */
  uint64_t advanced_ns;   /* by how much the clock has moved in all        */
  bool in_run;
  unsigned depth; /* of operations inside callbacks and walks */
  const uvwheel_timer_t *called_back;
} binding_game_t;

extern binding_game_t game;

/* ---- verify_binding.c ---------------------------------------------------- */

uint64_t clock_ms(void);

uint64_t now_ms(void);

/* A turn has ended, a stall was noticed, or timers were put back, if the wheel
 * says so. That timer fires, unless it is NOBODY. */
#define NOBODY MODEL_TIMERS
void watch_turns(unsigned firing);

/* As the options say it; 0 is none of what the game chooses from. */
uint64_t no_limit(uint32_t option);

/* A turn has begun, unless one is under way; and if one was, it is over. */
void begin_turn(void);
void end_turn(void);

/* A turn begins to call back; and does once more. */
void begin_callbacks(void);
void count_one_callback(void);

/* Has the turn that calls back used up its time? */
bool is_time_over(void);

/* Has the clock been set back, and not come to where it was? */
bool is_rewound(void);

/* Everything that must hold at any time, also inside callbacks. */
void verify_game(void);

/* ---- play_binding.c ------------------------------------------------------ */

/* Inside a callback or a walk: operations, if the bytes say so. */
void operate_inside(void);

uint64_t take_delay(void);

/* ---- play_timers.c ------------------------------------------------------- */

/* Makes the timer one of the present wheel, if that is open. */
void init_timer(holder_t *holder);

/* For how long it waits after a refresh. */
uint64_t wait_of(unsigned index);

/* ---- play_posts.c -------------------------------------------------------- */

bool is_mailbox_open(void);
bool has_posts(void); /* that wait in it */

/* Each turn of the loop calls them; posts are called back in between. */
void on_before_poll(uv_prepare_t *prepare);
void on_after_poll(uv_check_t *check);

/* The wheel is closed: all posts have been called back. */
void verify_no_posts(void);

#endif /* GAME_H */
