/* SPDX-License-Identifier: MIT */

/* A flood: more silent connections than the server has places for. They say
 * nothing, and connect again when they are closed. Meanwhile newcomers connect,
 * one after the other: each wants the echo of one message, and then leaves. The
 * verdict on a flood is how many get it, and how fast. */

#ifndef LOAD_FLOOD_H
#define LOAD_FLOOD_H

#include <stdint.h>
#include <stdio.h>

typedef struct flood_s {
  uint64_t newcomers; /* how many come                         */
  uint64_t interval_ns;
  uint64_t served;    /* how many of them got their echo       */
  uint64_t *times_ns; /* how long that took, from connect() on */
} flood_t;

/* They come evenly over the duration. Returns 0, or -1 if there is no memory.
 */
int flood_init(flood_t *flood, uint64_t newcomers, uint64_t duration_ns);
void flood_destroy(flood_t *flood);

/* Is it time for this newcomer, that long after all are running? */
int flood_is_due(const flood_t *flood, uint64_t newcomer, uint64_t ran_ns);

void flood_served(flood_t *flood, uint64_t time_ns);

/* Prints what was seen on the stream, and a complaint if the promise was broken
 * that all are served. Returns whether it was. */
int flood_report(flood_t *flood, FILE *stream);

#endif /* LOAD_FLOOD_H */
