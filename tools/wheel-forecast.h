/* SPDX-License-Identifier: MIT */

/* What a wheel of a given size will have to do, and which size to choose.
 *
 * The hand comes to a slot and looks at the timers in it. It fires a timer that
 * is due, moves one that was refreshed meanwhile to the slot of its new tick,
 * and leaves one whose time comes in a later round. How many looks is that per
 * second?
 *
 * Let T be the tick, N the slots, S = N * T a round, D a timeout, and R the
 * mean time between two refreshes of a timer, which come at random.
 *
 * A timer is put into its slot when it is started or moved. A is how long ago
 * its last refresh was then: 0 after a start, and more than a after a move in
 * e^(-a/R) of all cases, where what would be more than D is a timer that was
 * not refreshed in time, fired and was started anew. It is due D - A later, and
 * fires or moves at the tick after that, half a tick later on average: its stay
 * in the slot takes D - A + T/2. The last look of each stay is needed.
 *
 * If a round is longer than D that is all. Otherwise the hand comes by earlier,
 * and then every S until the timer is due. It looks into the slot only if the
 * stay of another timer of that slot ends in this round, which has the
 * probability p = 1 - e^-L, where L is how many stays end at their due time in
 * each tick on average. A timer that has been there for x was then refreshed
 * with the probability 1 - e^(-x/R); it moves, and its stay ends early. As p
 * decides how many stays end early, and these decide p, p is found by search.
 *
 * Last, with n timers: looks per second = n * looks per stay / length of stay.
 *
 * The test compares this with running wheels. Where rounds are longer than the
 * timeouts it is right within a tenth, otherwise within a factor of two. But it
 * is several times too high when timeouts take dozens of rounds, or refreshes
 * come in less than a fifth of one: then they gather the timers in few slots.
 * It is too high, too, for timers that are stopped before the hand comes by,
 * which are never looked at. */

#ifndef TOOLS_WHEEL_FORECAST_H
#define TOOLS_WHEEL_FORECAST_H

#include <stddef.h>
#include <stdint.h>

/* Timers with the same timeout, which are started anew when they have fired. */
typedef struct group_s {
  uint64_t timeout_ms;
  uint64_t count;
} group_t;

/* All timers of a wheel. */
typedef struct load_s {
  const group_t *groups;
  size_t group_count;
  double refresh_ms; /* on average between two refreshes; INFINITY: never */
} load_t;

typedef struct forecast_s {
  double looks;          /* per second, of timers by the hand           */
  double needed;         /* of these, those in which timers fire/move */
  double wakeups;        /* per second, of the loop by the wheel        */
  uint64_t wheel_bytes;  /* the wheel and its slots                     */
  uint64_t timers_bytes; /* all timers                                  */
} forecast_t;

/* slots must be a power of two. */
forecast_t forecast(const load_t *load, uint64_t tick_ms, uint32_t slots);

/* A hundredth of the shortest timeout, as 1, 2 or 5 times a power of ten, but
 * at least 1 ms and at most 10 s. */
uint64_t recommend_tick_ms(const load_t *load);

/* The fewest slots, but at least 64, with which at most a tenth more timers are
 * looked at than needed, or one more per tick. */
uint32_t recommend_slots(const load_t *load, uint64_t tick_ms);

#endif /* TOOLS_WHEEL_FORECAST_H */
