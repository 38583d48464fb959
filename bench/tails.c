/* SPDX-License-Identifier: MIT */

/* The time of single operations: a histogram, by the processor's timestamp
 * counter. */

#include "workloads.h"

#include "clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define RAMP_MS 10000u
#define SUB_BITS 5u /* a bucket is 1/32 of a power of two wide */
#define BUCKETS ((65u - SUB_BITS) << SUB_BITS)
#define NS_PER_S 1000000000u
#define CALIBRATION_NS 20000000u
#define CALIBRATION_CALLS 10000u

/* Past the virtual clock. */
static uint64_t
real_ns(void)
{
  struct timespec now;

  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The processor finishes all that came before it begins what follows: an
 * operation is measured with all its waits for memory, which overlap in the
 * other workloads. */
static inline uint64_t
timestamp(void)
{
#if defined(__x86_64__)
  uint64_t ticks;

  _mm_lfence();
  ticks = __rdtsc();
  _mm_lfence();
  return ticks;
#elif defined(__aarch64__)
  uint64_t ticks;

  __asm__ volatile("dsb ld\n\tisb\n\tmrs %0, cntvct_el0\n\tisb"
                   : "=r"(ticks)
                   :
                   : "memory");
  return ticks;
#else
  return real_ns();
#endif
}

struct tail {
  uint64_t worst;
  uint64_t count;
  uint32_t buckets[BUCKETS];
};

static struct {
  double ns_per_tick;
  uint64_t cost; /* ticks that two timestamps and the call between them take */
} counter;

static unsigned
bucket_of(uint64_t ticks)
{
  unsigned octave;

  if (ticks < 1u << SUB_BITS)
    return (unsigned)ticks;
  octave = 63u - (unsigned)__builtin_clzll(ticks) - SUB_BITS;
  return ((octave + 1) << SUB_BITS) +
         (unsigned)((ticks >> octave) & ((1u << SUB_BITS) - 1));
}

/* The middle of the bucket. */
static double
ticks_of(unsigned bucket)
{
  unsigned octave = bucket >> SUB_BITS;
  unsigned rest = bucket & ((1u << SUB_BITS) - 1);

  if (octave == 0)
    return bucket;
  return ((double)((1u << SUB_BITS) + rest) + 0.5) *
             (double)(1ull << (octave - 1)) -
         0.5;
}

/* Calls the operation for one timer and counts what it took. */
static void
measure_one(struct tail *tail, operation_fn operate, const uint32_t *timer)
{
  uint64_t begin = timestamp();
  uint64_t ticks;

  operate(timer, 1);
  ticks = timestamp() - begin;
  ticks = ticks > counter.cost ? ticks - counter.cost : 0;
  tail->buckets[bucket_of(ticks)]++;
  tail->count++;
  if (ticks > tail->worst)
    tail->worst = ticks;
}

static void
nothing(const uint32_t *timer, size_t count)
{
  (void)timer;
  (void)count;
}

/* The share of operations that took no longer. */
static unsigned
bucket_at(const struct tail *tail, double share)
{
  uint64_t rank = (uint64_t)(share * (double)tail->count);
  uint64_t seen = 0;
  unsigned bucket = 0;

  while (bucket < BUCKETS - 1 && (seen += tail->buckets[bucket]) <= rank)
    bucket++;
  return bucket;
}

static void
calibrate(void)
{
  static struct tail empty;
  uint64_t begin_ns = real_ns();
  uint64_t begin = timestamp();
  uint64_t ns;

  do
    ns = real_ns() - begin_ns;
  while (ns < CALIBRATION_NS);
  counter.ns_per_tick = (double)ns / (double)(timestamp() - begin);
  for (unsigned i = 0; i < CALIBRATION_CALLS; i++)
    measure_one(&empty, nothing, NULL);
  counter.cost = (uint64_t)ticks_of(bucket_at(&empty, 0.5));
}

static void
add_tail(struct result *result, enum row row, const struct tail *tail)
{
  static const double shares[] = {0.5, 0.99, 0.999};

  for (unsigned i = 0; i < 3; i++)
    add_result(result, (enum row)(row + i),
               ticks_of(bucket_at(tail, shares[i])) * counter.ns_per_tick, 1);
  add_result(result, (enum row)(row + 3),
             (double)tail->worst * counter.ns_per_tick, 1);
}

/* Each operation alone, while RAMP_MS pass. */
static void
measure_each(const struct peer *peer, struct tail *tail, operation_fn operate,
             const uint32_t *order, size_t n)
{
  size_t batch = n > RAMP_MS ? n / RAMP_MS : 1;

  for (size_t i = 0; i < n; i++) {
    measure_one(tail, operate, order + i);
    if ((i + 1) % batch == 0) {
      clock_move_ms(RAMP_MS * batch / n);
      peer->can->advance();
    }
  }
  peer->can->turn();
}

static const struct peer *turning;

static void
turn(const uint32_t *timer, size_t count)
{
  (void)timer;
  (void)count;
  turning->can->turn();
}

/* A turn at each millisecond, while all timers fire within 10 s and are
 * started again. */
static void
measure_turns(const struct peer *peer, struct tail *tail,
              const struct orders *orders)
{
  uint64_t seed = 362436069;

  for (size_t i = 0; i < orders->n; i++) {
    peer->can->set_times(random_below(&seed, RAMP_MS), 0);
    peer->can->start(orders->shuffled[0] + i, 1);
  }
  rearm_always(BENCH_TIMEOUT_MS);
  turning = peer;
  for (size_t i = 0; i < RAMP_MS; i++) {
    clock_move_ms(1);
    measure_one(tail, turn, NULL);
  }
}

void
workload_tails(const struct peer *peer, const struct orders *orders,
               struct result *result)
{
  struct tail tails[4] = {{0}};
  uint64_t begin = clock_cpu_ns();
  size_t n = orders->n;

  if (counter.ns_per_tick == 0)
    calibrate();
  open_peer(peer, orders);
  for (size_t round = 0; more_rounds(n, round, begin); round++) {
    peer->can->set_times(BENCH_TIMEOUT_MS, 0);
    measure_each(peer, &tails[0], peer->can->start, orders->shuffled[0], n);
    measure_each(peer, &tails[1], peer->can->refresh, orders->random, n);
    measure_each(peer, &tails[2], peer->can->stop, orders->shuffled[1], n);
  }
  measure_turns(peer, &tails[3], orders);
  add_tail(result, ROW_TAIL_START, &tails[0]);
  add_tail(result, ROW_TAIL_REFRESH, &tails[1]);
  add_tail(result, ROW_TAIL_STOP, &tails[2]);
  add_tail(result, ROW_TAIL_TURN, &tails[3]);
  add_result(result, ROW_TAIL_COST, (double)counter.cost * counter.ns_per_tick,
             1);
  close_peer(peer, orders);
}
