/* SPDX-License-Identifier: MIT */

/* A timer library, as the benchmark knows it: one table of operations. bench.c
 * begins with the method. */

#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define BENCH_TIMEOUT_MS 60000u
#define BENCH_MOST_TIMERS 20000000u

/* ---- The clock ----------------------------------------------------------- */

/* The clock of all event loops of this program is virtual: it stands still
 * until the benchmark moves it, and a loop that would sleep moves it on and
 * returns at once. So a minute of a server takes only the CPU time of its
 * timers and polls. clock.c defines the functions by which libuv reads the time
 * and sleeps, in the executable, whose symbols win over those of the C library.
 * CPU time and real time are read by system calls that bypass all this. */
void clock_move_ms(uint64_t step_ms);
uint64_t clock_cpu_ns(void); /* of this process */
uint64_t clock_real_ns(void);

/* ---- Connections, and the orders in which they are used ------------------ */

/* Makes bench_arena: connections that have all been written to. */
void arena_make(size_t connections);

/* Says where in its connection each timer is. */
void arena_place(size_t offset);

/* The orders in which timers are used, all of them made before anything is
 * measured and read from front to back. */
struct orders {
  size_t n;
  uint32_t *ordered;     /* as they lie in memory          */
  uint32_t *shuffled[2]; /* each timer once, in two orders */
  uint32_t *random;      /* n draws of any timer           */
};

void orders_make(struct orders *orders, size_t n);
void orders_free(struct orders *orders);

/* A number less than bound; the state is the seed, not 0. */
uint32_t random_below(uint64_t *state, size_t bound);

/* Where a rival's timers are: timer i is at base + i * stride. */
struct arena {
  char *base;
  size_t stride;
};

extern struct arena bench_arena;

/* ---- A timer library ----------------------------------------------------- */

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

/* ---- The loop of all rivals ---------------------------------------------- */

extern uv_loop_t bench_loop;
extern uint64_t libuv_timeout_ms; /* the times of set_times */
extern uint64_t libuv_repeat_ms;

void libuv_set_times(uint64_t timeout_ms, uint64_t repeat_ms);
void libuv_loop_open(void);
void libuv_close_loop(uv_loop_t *loop); /* and its handles */
void libuv_loop_close(void);
void libuv_release(void);
void libuv_loop_advance(void);
void libuv_loop_iterate(void);
void libuv_loop_run(uint64_t ms);

/* Their lines in the table. */
#define LIBUV_CAN                                                 \
  .init = init, .start = start, .refresh = refresh, .stop = stop, \
  .close = libuv_loop_close, .set_times = libuv_set_times,        \
  .advance = libuv_loop_advance, .iterate = libuv_loop_iterate,   \
  .run = libuv_loop_run

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
