/* SPDX-License-Identifier: MIT */

/* A byte string is a sequence of operations on a wheel, which must do what a
 * model of it does. Random tests, fuzzers and the replay of a corpus differ
 * only in where the bytes come from. */

#ifndef PLAY_H
#define PLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core_support.h"
#include "model.h"

/* Does what the bytes say; reports and aborts when the model is contradicted.
 * play_wheel.c and play_binding.c each have one. */
void play(const uint8_t *data, size_t size);

/* ---- What both of them use ----------------------------------------------- */

typedef struct bytes_s {
  const uint8_t *next;
  const uint8_t *end;
} bytes_t;

bool has_bytes(const bytes_t *bytes);

/* A number of that many bytes, the lowest first; missing ones are 0. */
uint64_t take(bytes_t *bytes, unsigned size);

/* A number below count, which is at most 256. */
unsigned pick(bytes_t *bytes, unsigned count);

/* A delay: often short, or close to a multiple of a tick or a round, sometimes
 * huge. */
uint64_t take_delay_ms(bytes_t *bytes, uint64_t tick_ms, uint64_t slots);

uint64_t take_tick_ms(bytes_t *bytes);
uint32_t take_budget(bytes_t *bytes);

/* How many timers there are. */
unsigned take_capacity(bytes_t *bytes);

/* ---- What the programs use ----------------------------------------------- */

/* A decimal number and nothing else. */
bool parse_number(const char *text, uint64_t *value);

/* Has a contradiction, a finding of a sanitizer and other fatal signals call
 * `tell`, which says how to repeat it, before they end the program. */
void tell_at_the_end(void (*tell)(void));

#endif /* PLAY_H */
