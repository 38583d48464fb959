/* SPDX-License-Identifier: MIT */

/* The operations of the binding's game, each with the number of its shares in
 * a random choice. play_timers.c, play_posts.c and play_binding.c have them. */

#ifndef OPERATIONS_H
#define OPERATIONS_H

#define OPERATIONS(OPERATION)       \
  OPERATION(start, 3)               \
  OPERATION(expect, 4)              \
  OPERATION(refresh, 3)             \
  OPERATION(run_turn, 2)            \
  OPERATION(run_without_waiting, 1) \
  OPERATION(run_once, 2)            \
  OPERATION(run_for, 3)             \
  OPERATION(again, 2)               \
  OPERATION(set_repeat, 1)          \
  OPERATION(set_missed, 1)          \
  OPERATION(stop, 1)                \
  OPERATION(stop_and_free, 1)       \
  OPERATION(start_many, 1)          \
  OPERATION(print, 1)               \
  OPERATION(init_again, 1)          \
  OPERATION(set_timer_ref, 1)       \
  OPERATION(set_wheel_ref, 1)       \
  OPERATION(advance, 1)             \
  OPERATION(update_time, 1)         \
  OPERATION(step_back, 1)           \
  OPERATION(stop_loop, 1)           \
  OPERATION(be_slow, 2)             \
  OPERATION(stall, 3)               \
  OPERATION(fire_soonest, 2)        \
  OPERATION(walk, 1)                \
  OPERATION(post, 4)                \
  OPERATION(post_many, 1)           \
  OPERATION(open_mailbox, 1)        \
  OPERATION(open_again, 1)          \
  OPERATION(end_wheel, 1)

#define DECLARE(name, shares) void name(void);
OPERATIONS(DECLARE)

#endif /* OPERATIONS_H */
