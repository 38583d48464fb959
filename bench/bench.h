/* SPDX-License-Identifier: MIT */

/* A timer library, as the benchmark knows it: one table of operations. bench.c
 * begins with the method. */

#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_TIMEOUT_MS 60000u
#define BENCH_MOST_TIMERS 20000000u

/* Where a rival's timers are: timer i is at base + i * stride. */
struct arena {
  char *base;
  size_t stride;
};

extern struct arena bench_arena;

/* The callbacks of all rivals do the same: bench_fire, and start again when the
 * workload wants that. */
extern uint64_t bench_fired;
/* The timeout to take then; 0: a timer that fired stays idle. */
extern uint64_t bench_rearm_ms;

/* The abilities of a rival beyond operations on timers of one timeout. */
enum {
  TRAIT_TIMEOUTS = 1, /* each timer may have its own timeout */
  TRAIT_CHOICE = 2    /* not just an option of the wheel     */
};

/* An operation is for the timers whose indices are in an array, in that order.
 */
typedef void (*operation_fn)(const uint32_t *order, size_t count);

/* The operations of a timer library. init, open and close are not measured. */
struct operations {
  size_t timer_bytes;
  void (*close)(void); /* frees the loop; all timers are released */

  /* The times with which timers are started from here on. The repeat is 0,
   * except before `again`. */
  void (*set_times)(uint64_t timeout_ms, uint64_t repeat_ms);

  operation_fn init;
  operation_fn start;
  /* Traffic came: the next 60 s begin now. The fastest way that the library
   * offers. */
  operation_fn refresh;
  operation_fn stop;
  operation_fn expect; /* a start and a refresh in one call; NULL: cannot */
  /* All that must be done before the memory of timers that may be active can be
   * freed, all of it at once; NULL: nothing. */
  void (*release)(void);

  void (*advance)(void);    /* the loop looks at the clock; nothing is due */
  void (*iterate)(void);    /* one iteration that does not wait            */
  void (*run)(uint64_t ms); /* the loop runs for that long              */

  /* The next repeat begins now; NULL: cannot. */
  operation_fn again;
  /* Fires the timer that is due first; NULL: cannot. */
  void (*fire_soonest)(void);
};

/* A library, opened for a benchmark. */
struct rival {
  const char *name;
  unsigned traits;
  void (*open)(void); /* makes a loop */
  const struct operations *can;
  size_t offset; /* of a timer in its connection */
};

#define BENCH_LINE 64u   /* a cache line begins there                      */
#define BENCH_ACROSS 56u /* as behind a uv_tcp_t: it has parts of two lines */

/* From a timer to what no rival's timer reaches, in the connection's last line.
 */
#define BENCH_BEHIND 168u

/* A timer has fired. Who closes its connection writes to the socket in it,
 * which has lines of its own. */
static inline void bench_fire(void *timer) {
  uint32_t *socket = (void *)((char *)timer + BENCH_BEHIND);

  bench_fired++;
  ++*socket;
}

/* The loop around each operation, for all rivals. The operation is inlined in
 * it, so that no call by pointer is measured. */
__attribute__((always_inline)) static inline void
bench_each(const uint32_t *order, size_t count,
           void (*operation)(void *timer)) {
  char *base = bench_arena.base;
  size_t stride = bench_arena.stride;

  for (size_t i = 0; i < count; i++)
    operation(base + order[i] * stride);
}

/* Defines an operation on many timers, NAME, by the one on one timer, NAME_one.
 */
#define BENCH_OPERATION(NAME)                             \
  static void NAME(const uint32_t *order, size_t count) { \
    bench_each(order, count, NAME##_one);                 \
  }

/* Those that every rival has. */
#define BENCH_OPERATIONS   \
  BENCH_OPERATION(init)    \
  BENCH_OPERATION(start)   \
  BENCH_OPERATION(refresh) \
  BENCH_OPERATION(stop)

/* Their lines in the table. */
#define BENCH_CAN .init = init, .start = start, .refresh = refresh, .stop = stop

/* Ends the program with one line on stderr. */
__attribute__((noreturn, format(printf, 1, 2))) void
bench_die(const char *format, ...);

extern const struct rival rival_uvwheel;
extern const struct rival rival_uvwheel_across;
extern const struct rival rival_uvwheel_fifo;
extern const struct rival rival_uvwheel_fine;
extern const struct rival rival_list;
extern const struct rival rival_small;
extern const struct rival rival_lazy;
extern const struct rival rival_byte;
extern const struct rival rival_libuv;

#endif /* BENCH_H */
