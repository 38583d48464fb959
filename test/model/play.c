/* SPDX-License-Identifier: MIT */

#include "play.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

/* ---- What the bytes say -------------------------------------------------- */

bool has_bytes(const bytes_t *bytes) {
  return bytes->next < bytes->end;
}

uint64_t take(bytes_t *bytes, unsigned size) {
  uint64_t value = 0;
  unsigned i;

  for (i = 0; i < size && has_bytes(bytes); i++)
    value |= (uint64_t)*bytes->next++ << (8 * i);
  return value;
}

unsigned pick(bytes_t *bytes, unsigned count) {
  return (unsigned)take(bytes, 1) % count;
}

static uint64_t take_huge(bytes_t *bytes) {
  static const uint64_t huge[] = {
      86400000,          INT32_MAX, UINT32_MAX, UINT64_C(315576000000),
      (uint64_t)1 << 62, INT64_MAX, UINT64_MAX};

  return huge[pick(bytes, LENGTH(huge))];
}

/* One less, the same, or one more. */
static uint64_t take_nearby(bytes_t *bytes, uint64_t value) {
  unsigned offset = pick(bytes, 3);

  return offset == 0 && value == 0 ? 0 : value + offset - 1;
}

uint64_t take_delay_ms(bytes_t *bytes, uint64_t tick_ms, uint64_t slots) {
  switch (pick(bytes, 8)) {
  case 0:
    return pick(bytes, 16);
  case 1:
    return take(bytes, 1);
  case 2:
    return take(bytes, 2);
  case 3:
    return tick_ms * pick(bytes, 8);
  case 4: /* in all of a large wheel */
    tick_ms *= slots > 256 ? slots / 256 : 1;
    return take_nearby(bytes, tick_ms * pick(bytes, 256));
  case 5:
    return take_nearby(bytes, tick_ms * slots * pick(bytes, 5));
  case 6:
    return tick_ms * (slots * pick(bytes, 4) + pick(bytes, 4));
  default:
    return take_nearby(bytes, take_huge(bytes));
  }
}

uint64_t take_tick_ms(bytes_t *bytes) {
  static const uint64_t ticks_ms[] = {1, 2, 3, 7, 10, 16, 100, 86400000};
  unsigned choice = pick(bytes, LENGTH(ticks_ms) + 1);

  return choice < LENGTH(ticks_ms) ? ticks_ms[choice] : 1 + take(bytes, 2);
}

uint32_t take_budget(bytes_t *bytes) {
  static const uint32_t budgets[] = {1, 2, 3, 7, 100, 256, 257, UINT32_MAX};

  return budgets[pick(bytes, LENGTH(budgets))];
}

unsigned take_capacity(bytes_t *bytes) {
  static const unsigned capacities[] = {1, 2, 3, 5, 8, 20, 40, MODEL_TIMERS};

  return capacities[pick(bytes, LENGTH(capacities))];
}

/* ---- The programs -------------------------------------------------------- */

bool parse_number(const char *text, uint64_t *value) {
  char *end;

  errno = 0;
  *value = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

/* Sanitizers end by abort, too. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void) {
  return "abort_on_error=1";
}

const char *__ubsan_default_options(void) {
  return "abort_on_error=1:print_stacktrace=1";
}

static void (*tell_how)(void);

static void on_signal(int number) {
  signal(number, SIG_DFL);
  tell_how();
  raise(number);
}

void tell_at_the_end(void (*tell)(void)) {
  tell_how = tell;
  signal(SIGABRT, on_signal);
  signal(SIGSEGV, on_signal);
#ifdef SIGVTALRM
  signal(SIGVTALRM, on_signal); /* see limit_cpu_time */
#endif
  signal(SIGTERM, on_signal);
}
