/* SPDX-License-Identifier: MIT */

/* What the benchmark knows of a timer library: one table of operations. The
 * method is told at the top of bench.c. */

#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_TIMEOUT_MS 60000u

/* Where a peer's timers live: timer i is at base + i * stride. */
struct arena {
  char *base;
  size_t stride;
};

extern struct arena bench_arena;

/* The callbacks of all peers do the same: count, and start again when the
 * workload wants that. */
extern uint64_t bench_fired;
extern uint64_t bench_rearm_ms; /* 0: a timer that fired stays idle */

/* Which workloads a peer takes part in, and how. */
enum {
  TRAIT_BASIC = 1,        /* operations and the steady server              */
  TRAIT_BURST = 2,        /* all due at once                               */
  TRAIT_IDLE = 4,         /* idle                                          */
  TRAIT_MILLION = 8,      /* libuv's ten-million-timer workload            */
  TRAIT_DAY = 16,         /* timers that are a day away                    */
  TRAIT_FLOOR = 32,       /* what memory allows                            */
  TRAIT_HUGE = 64,        /* as many timers as memory holds, not 5 million */
  TRAIT_ONE_TIMEOUT = 128 /* all timers must have the same timeout         */
};

/* What a timer library can do. An array of indices says which timers an
 * operation is for, and in which order. init, release, open and close are
 * never measured, but in the ten-million-timer workload. */
struct operations {
  size_t timer_bytes;
  void (*close)(void); /* frees the loop; all timers are released */

  void (*init)(const uint32_t *order, size_t count);
  void (*start)(const uint32_t *order, size_t count, uint64_t timeout_ms);
  /* Traffic came: the next 60 s begin now. The fastest way that the library
   * offers. */
  void (*refresh)(const uint32_t *order, size_t count);
  /* The same by starting active timers anew; NULL where that is refresh. From
   * then on they have a repeat, as `again` needs. */
  void (*restart)(const uint32_t *order, size_t count);
  void (*again)(const uint32_t *order, size_t count);
  void (*stop)(const uint32_t *order, size_t count);
  /* All that must be done before a timer's memory may be freed. */
  void (*release)(const uint32_t *order, size_t count);

  void (*advance)(void);    /* the loop looks at the clock; nothing is due */
  void (*turn)(void);       /* one iteration that does not wait            */
  void (*run)(uint64_t ms); /* the loop runs for that long; NULL: no loop  */
};

/* A library as it is opened for a benchmark. */
struct peer {
  const char *name;
  unsigned traits;
  void (*open)(void); /* makes a loop */
  const struct operations *can;
};

/* The loop around each operation, for all peers. It is inlined with the
 * operation in it, so that no call by pointer is measured. */
__attribute__((always_inline)) static inline void
bench_each(const uint32_t *order, size_t count, void (*operation)(void *timer))
{
  char *base = bench_arena.base;
  size_t stride = bench_arena.stride;

  for (size_t i = 0; i < count; i++)
    operation(base + order[i] * stride);
}

/* What one line of memory costs when a function of a shared library touches it;
 * in a library of its own. */
void floor_touch(void *timer);

/* Ends the program with one line on stderr. */
__attribute__((noreturn, format(printf, 1, 2))) void
bench_die(const char *format, ...);

extern const struct peer peer_floor;
extern const struct peer peer_floor_by_call;
extern const struct peer peer_uvwheel;
extern const struct peer peer_uvwheel_fifo;
extern const struct peer peer_uvwheel_unlimited;
extern const struct peer peer_uvwheel_fine;
extern const struct peer peer_uvwheel_day;
extern const struct peer peer_libuv;
extern const struct peer peer_libev;
extern const struct peer peer_libevent;
extern const struct peer peer_libevent_common;
extern const struct peer peer_asio;

#ifdef __cplusplus
}
#endif

#endif /* BENCH_H */
