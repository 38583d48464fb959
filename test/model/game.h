/* SPDX-License-Identifier: MIT */

/* A wheel on a real loop in virtual time, and what its model knows. */

#ifndef GAME_H
#define GAME_H

#include <uv.h>

#include "model.h"
#include "play.h"
#include "uvwheel.h"

typedef enum wheel_state_e {
  OPEN,
  FOREIGN, /* somebody else has closed the wheel's uv_timer_t */
  CLOSING, /* uvwheel_close was called */
  GONE,    /* and told that the memory may be reused */
} wheel_state_t;

/* Allocated one by one, so that a use after free shows. */
typedef struct holder_s {
  uvwheel_timer_t timer;
  unsigned index;
} holder_t;

/* What the model of the wheel layer does not know of a timer. */
typedef struct armed_s {
  holder_t *holder;
  bool started; /* ever, since its init */
  bool unrefd;
  uint64_t timeout;
  uint64_t repeat;
  uvwheel_missed_t missed;
  /* It has to fire exactly at its tick, unless a turn is cut meanwhile: the
   * loop's time was right and the clock has not been moved past it. */
  bool punctual;
  uint64_t cuts;
} armed_t;

typedef struct game_s {
  bytes_t bytes;
  uv_loop_t loop;
  uv_timer_t stopper;
  uvwheel_t *wheel;
  wheel_state_t state;
  uvwheel_options_t options;
  bool unrefd;
  model_t model;
  armed_t timers[MODEL_TIMERS];
  uint64_t fired;
  uint64_t stopped;
  uint64_t lateness_max_ms;
  unsigned fired_in_run;
  uint64_t rewound_to_ms; /* the clock was set back; then it had been this */
  bool in_run;
  unsigned depth; /* of operations inside callbacks and walks */
} game_t;

extern game_t game;

/* ---- verify_binding.c ---------------------------------------------------- */

uint64_t clock_ms(void);

/* Has the clock been set back, and not come to where it was? */
bool is_rewound(void);

/* Everything that must hold at any time, also inside callbacks. */
void verify(void);

/* ---- play_binding.c ------------------------------------------------------ */

/* Inside a callback or a walk: operations, if the bytes say so. */
void operate_inside(void);

uint64_t take_delay(void);

/* ---- play_timers.c, the operations --------------------------------------- */

void start(void);
void start_many(void);
void start_without_callback(void);
void stop(void);
void stop_and_free(void);
void refresh(void);
void again(void);
void set_repeat(void);
void set_missed(void);
void set_timer_ref(void);
void init_again(void);

/* Makes the timer one of the present wheel. */
void init_timer(holder_t *holder);

#endif /* GAME_H */
