/* SPDX-License-Identifier: MIT */

/* uvwheel beside its rivals.
 *
 * This measures the CPU time of this process, which is bound to one core. The
 * same code (workloads.c) runs every rival through one table of operations
 * (bench.h). In each repetition all rivals run a workload one after the other,
 * so that whatever else the machine does hits all of them alike; report.py
 * takes medians, shows the spread, and marks ties. All random orders come from
 * fixed seeds.
 *
 * A timer is part of its connection: N connections of 256 bytes, aligned to
 * cache lines, the timer at offset 64. "Across two lines" it is at 56, as
 * behind a uv_tcp_t, which has 248 bytes, in such a connection. All rivals use
 * the same memory, whose pages (of 4 KiB, without huge pages) have been written
 * to before. The order of the timers is read from an array, front to back,
 * which the processor's prefetcher hides. A callback writes to another line of
 * the connection, as each server does that closes it. All that a program does
 * itself is compiled into this one; uvwheel and libuv are shared libraries.
 *
 * The loops run in virtual time (clock.c): nothing ever sleeps. Time passes
 * while timers are started or refreshed (10 s for N operations), as it does in
 * a server. A constant timeout is a heap's best case, because a new timer is
 * never due before the old ones. The loop reads the clock at each millisecond
 * at which a timer is started, so that timers lie as close to each other as in
 * a server, and otherwise every 100 operations or 10 ms; the time of that,
 * measured without any operation, is subtracted. A small number of timers is
 * used again and again, on the same loop, until 200,000 were handled.
 *
 * Timeouts are 50 to 60 s, but in extremes.c. workloads.c, extremes.c and
 * messages.c tell what each workload does. "start" is of idle timers, "refresh"
 * of active ones, drawn at random, "stop" in another random order.
 *
 * Output: a line per result on stdout: rival, workload, timers, repetition,
 * value, unit, separated by commas. Progress is on stderr. */

#include "bench.h"

#include "workloads.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SIZES 16

static const struct rival *const rivals[] = {
    &rival_uvwheel,      &rival_uvwheel_across, &rival_uvwheel_fifo,
    &rival_uvwheel_fine, &rival_byte,           &rival_list,
    &rival_small,        &rival_lazy,           &rival_libuv,
};

#define RIVAL_COUNT (sizeof(rivals) / sizeof(rivals[0]))

#define MILLION 1000000u

/* A workload and the rows that come out of it. */
struct known_workload {
  workload_fn *run;
  unsigned traits; /* rivals need all of these to take part */
  enum row first;
  enum row last;
  size_t most; /* timers */
};

static const struct known_workload workloads[] = {
    {workload_operations, 0, ROW_START, ROW_BYTES, BENCH_MOST_TIMERS},
    {workload_steady, 0, ROW_STEADY, ROW_STEADY, BENCH_MOST_TIMERS},
    {workload_all, TRAIT_CHOICE, ROW_CLOSE, ROW_SOONEST, BENCH_MOST_TIMERS},
    {workload_burst, 0, ROW_BURST, ROW_BURST, MILLION},
    {workload_iterations, 0, ROW_NOTHING_DUE, ROW_ONE_DUE_FAR, MILLION},
    {workload_messages, TRAIT_CHOICE, ROW_MESSAGE, ROW_ADDED, 10000},
};

#define WORKLOAD_COUNT (sizeof(workloads) / sizeof(workloads[0]))

static struct {
  size_t sizes[MOST_SIZES];
  size_t size_count;
  unsigned long repetitions;
  const char *only;
  const char *rivals;
  unsigned traits; /* all rivals need these  */
  uint64_t ns;     /* of real time; 0: as long as it takes */
} options = {
    .sizes = {1000, 10000, 100000, MILLION}, .size_count = 4, .repetitions = 5};

/* --quick: another repetition begins only if it will end within this time. */
#define QUICK_NS 30000000000u
#define QUICK_ROWS \
  "refresh,steady,start,stop shuffled,expire,longest,memory per"

/* Does the name begin with one of the words of the list? NULL lists all. */
static int listed(const char *list, const char *name) {
  while (list != NULL && *list != '\0') {
    size_t length = strcspn(list, ",");

    if (strncmp(list, name, length) == 0)
      return 1;
    list += length + (list[length] == ',');
  }
  return list == NULL;
}

int bench_wanted(enum row row) {
  return listed(options.only, bench_rows[row].name);
}

/* ---- Running ----------------------------------------------------------- */

static int takes_part(const struct known_workload *workload,
                      const struct rival *rival) {
  unsigned needed = workload->traits | options.traits;

  return listed(options.rivals, rival->name) &&
         (rival->traits & needed) == needed;
}

static int workload_wanted(const struct known_workload *workload, size_t n) {
  if (n > workload->most)
    return 0;
  for (enum row row = workload->first; row <= workload->last; row++)
    if (bench_wanted(row))
      return 1;
  return 0;
}

static void print_result(const struct rival *rival, size_t n,
                         unsigned long repetition,
                         const struct result *result) {
  for (enum row row = 0; row < ROW_COUNT; row++)
    if (result->count[row] > 0 && bench_wanted(row))
      printf("%s,%s,%zu,%lu,%.6g,%s\n", rival->name, bench_rows[row].name, n,
             repetition, result->total[row] / result->count[row],
             bench_rows[row].unit);
  fflush(stdout);
}

static void run_once(const struct known_workload *workload,
                     const struct rival *rival, const struct orders *orders,
                     unsigned long repetition) {
  struct result result = {{0}, {0}};

  workload->run(rival, orders, &result);
  print_result(rival, orders->n, repetition, &result);
}

static void run_size(size_t n, unsigned long repetition) {
  struct orders orders;

  fprintf(stderr, "%lu of %lu: %zu timers ...\n", repetition,
          options.repetitions, n);
  orders_make(&orders, n);
  for (size_t i = 0; i < WORKLOAD_COUNT; i++)
    for (size_t j = 0; j < RIVAL_COUNT; j++)
      if (workload_wanted(&workloads[i], n) &&
          takes_part(&workloads[i], rivals[j]))
        run_once(&workloads[i], rivals[j], &orders, repetition);
  orders_free(&orders);
}

/* Stopped early, it has measured all workloads, though fewer times. */
static void run_all(void) {
  uint64_t begin = clock_real_ns();

  for (unsigned long i = 1; i <= options.repetitions; i++) {
    for (size_t j = 0; j < options.size_count; j++)
      run_size(options.sizes[j], i);
    if (options.ns != 0 && (clock_real_ns() - begin) / i * (i + 1) > options.ns)
      break;
  }
}

/* ---- Setting up -------------------------------------------------------- */

/* The last core: the first one serves most interrupts. */
static void bind_to_core(void) {
  cpu_set_t set;
  size_t core = 0;

  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    bench_die("sched_getaffinity failed");
  for (size_t i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &set))
      core = i;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0)
    bench_die("cannot run on core %zu", core);
}

/* It ends with the text, or at a character of ends. */
static unsigned long number(const char *text, const char *ends,
                            unsigned long least, unsigned long most) {
  unsigned long value;
  char *end;

  errno = 0;
  value = strtoul(text, &end, 10);
  if (errno != 0 || end == text || strchr(ends, *end) == NULL ||
      value < least || value > most)
    bench_die("%s: not a number from %lu to %lu", text, least, most);
  return value;
}

static void read_sizes(const char *text) {
  options.size_count = 0;
  for (; text != NULL; text = strchr(text, ',')) {
    text += *text == ',';
    if (options.size_count == MOST_SIZES)
      bench_die("more than %d sizes", MOST_SIZES);
    options.sizes[options.size_count++] =
        number(text, ",", 1000, BENCH_MOST_TIMERS);
  }
}

static void be_quick(void) {
  read_sizes("10000,100000");
  options.only = QUICK_ROWS;
  options.traits = TRAIT_CHOICE;
  options.ns = QUICK_NS;
}

static void read_options(int argc, char **argv) {
  static const struct option known[] = {
      {"n", required_argument, NULL, 'n'},
      {"quick", no_argument, NULL, 'q'},
      {"only", required_argument, NULL, 'o'},
      {"rivals", required_argument, NULL, 'v'},
      {"reps", required_argument, NULL, 'r'},
      {NULL, 0, NULL, 0}};
  int option;

  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    if (option == 'n')
      read_sizes(optarg);
    else if (option == 'q')
      be_quick();
    else if (option == 'o')
      options.only = optarg;
    else if (option == 'v')
      options.rivals = optarg;
    else if (option == 'r')
      options.repetitions = number(optarg, "", 1, 1000);
    else
      exit(2);
  }
  if (optind != argc)
    bench_die("unknown argument '%s', see bench/run --help", argv[optind]);
}

static size_t most_timers(void) {
  size_t most = 0;

  for (size_t i = 0; i < options.size_count; i++)
    if (options.sizes[i] > most)
      most = options.sizes[i];
  return most;
}

int main(int argc, char **argv) {
  read_options(argc, argv);
  bind_to_core();
  arena_make(most_timers());
  run_all();
  return 0;
}
