/* SPDX-License-Identifier: MIT */

/* Counts the calls of the process, times a sample of them, and reports what its
 * timers did and took: when it ends by exit or by a signal that it does not
 * handle itself, on SIGUSR2, and in the file of --output four times a second. A
 * signal handler may write a report, so none of this allocates memory. */

#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl*) */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "try.h"

/* ---- Calls -------------------------------------------------------------- */

/* A sample of them is timed: all of the first ones, so that a short run has
 * figures, then some at random, so that no rhythm of the program distorts the
 * sample. */
#define ALL_UNTIL 1024
#define ONE_OF 16

/* No such call takes that long: the process was interrupted. */
#define LONGEST_CALL_NS 100000
#define LONGEST_LOOK_NS 2000

uint64_t now_ns(void) {
  struct timespec now;

  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The least of many is its cost when nothing interrupts it. Threads may measure
 * it side by side. */
uint64_t clock_ns(void) {
  static _Atomic uint64_t known;
  uint64_t least = atomic_load(&known);

  if (least != 0)
    return least;
  least = LONGEST_CALL_NS;
  for (int i = 0; i < 1000; i++) {
    uint64_t began_ns = now_ns(), took_ns = now_ns() - began_ns;

    if (took_ns < least)
      least = took_ns;
  }
  atomic_store(&known, least != 0 ? least : 1);
  return least;
}

stopwatch_t begin_call(tally_t *tally, kind_t kind) {
  stopwatch_t watch = {&tally->costs[kind], 0, 0};

  watch.cost->calls++;
  if (watch.cost->left != 0) {
    watch.cost->left--;
    return watch;
  }
  watch.weight = 1;
  if (watch.cost->calls > ALL_UNTIL) {
    watch.weight = ONE_OF;
    watch.cost->left = (uint64_t)nrand48(tally->random) % (2 * ONE_OF - 1);
  }
  watch.began_ns = now_ns();
  return watch;
}

static void note(const stopwatch_t *watch, uint64_t took_ns, uint64_t beside_ns,
                 uint64_t longest_ns) {
  cost_t *cost = watch->cost;
  uint64_t ns = took_ns > beside_ns ? took_ns - beside_ns : 0;

  if (ns > longest_ns)
    return;
  cost->timed++;
  cost->weight += watch->weight;
  cost->ns += watch->weight * ns;
}

void end_call(const stopwatch_t *watch) {
  if (watch->weight != 0)
    note(watch, now_ns() - watch->began_ns, clock_ns(), LONGEST_CALL_NS);
}

void end_turn(const stopwatch_t *watch, uint64_t ended_ns,
              uint64_t callbacks_ns, uint64_t looked) {
  note(watch, ended_ns - watch->began_ns, callbacks_ns + clock_ns(),
       LONGEST_CALL_NS + looked * LONGEST_LOOK_NS);
}

/* Ns that all calls of the kind took, by the sample. */
static double cost_ns(const cost_t *cost) {
  if (cost->weight == 0)
    return 0;
  return (double)cost->ns / (double)cost->weight * (double)cost->calls;
}

/* ---- Lateness ----------------------------------------------------------- */

void note_late(tally_t *tally, uint64_t weight, uint64_t due_ns,
               uint64_t fired_ns) {
  uint64_t ns = fired_ns > due_ns ? fired_ns - due_ns : 0;
  uint64_t us = ns / 1000, shift = 0;

  while (us >> shift >= 2 * LATE_STEPS)
    shift++;
  tally->late[shift * LATE_STEPS + (us >> shift)] += weight;
  tally->late_ns += weight * ns;
}

/* Where a bucket ends. */
static double bucket_ms(uint64_t bucket) {
  uint64_t shift = bucket < LATE_STEPS ? 0 : bucket / LATE_STEPS - 1;

  return (double)((bucket - shift * LATE_STEPS + 1) << shift) / 1000;
}

/* Ms by which timers were late: on average, and 99 of 100 at most. */
typedef struct lateness_s {
  double mean_ms;
  double p99_ms;
} lateness_t;

static lateness_t lateness_of(const tally_t *tally) {
  lateness_t lateness = {0, 0};
  uint64_t timers = 0, seen = 0, bucket = 0;

  for (uint64_t i = 0; i < LATE_BUCKETS; i++)
    timers += tally->late[i];
  if (timers == 0)
    return lateness;
  while ((seen += tally->late[bucket]) * 100 < timers * 99)
    bucket++;
  lateness.mean_ms = (double)tally->late_ns / (double)timers / 1e6;
  lateness.p99_ms = bucket_ms(bucket);
  return lateness;
}

/* ---- Many tallies ------------------------------------------------------- */

static void add_tally(tally_t *sum, const tally_t *tally) {
  const uint64_t *counts = (const uint64_t *)(const void *)tally;
  uint64_t *into = (uint64_t *)(void *)sum;

  for (size_t i = 0; i < offsetof(tally_t, random) / sizeof *counts; i++)
    into[i] += counts[i];
}

/* A child begins anew, with the timers that it has inherited. */
static void restart_tally(tally_t *tally, bool has_loop) {
  tally_t begun = {.loops = has_loop,
                   .active = tally->active,
                   .active_most = tally->active,
                   .open = tally->open,
                   .open_most = tally->open};

  *tally = begun;
}

/* ---- Where it goes ------------------------------------------------------ */

settings_t settings = {.output = ""};

static uint64_t began_ns;
static atomic_bool is_begun;

typedef struct text_s {
  char bytes[4096];
  size_t length;
} text_t;

__attribute__((format(printf, 2, 3))) static void add(text_t *text,
                                                      const char *format, ...) {
  size_t left = sizeof text->bytes - text->length;
  va_list arguments;
  int length;

  va_start(arguments, format);
  length = vsnprintf(text->bytes + text->length, left, format, arguments);
  va_end(arguments);
  if (length > 0)
    text->length += (size_t)length < left ? (size_t)length : left - 1;
}

/* A pipe takes so little as a whole. */
static void emit(int file, const text_t *text) {
  ssize_t written;

  do
    written = write(file, text->bytes, text->length);
  while (written < 0 && errno == EINTR);
}

/* The command's own process writes to the file of --output, other processes to
 * files of their own beside it. */
static void add_path(text_t *path) {
  add(path, "%s", settings.output);
  if (getpid() != settings.command_pid)
    add(path, ".%ld", (long)getpid());
}

/* ---- The report --------------------------------------------------------- */

/* Returns the ns. */
static double add_row(text_t *text, const char *name, uint64_t calls,
                      uint64_t timed, double ns) {
  add(text, "%-8s%12" PRIu64 "%12" PRIu64 "%14.1f%12.3f\n", name, calls, timed,
      calls != 0 ? ns / (double)calls : 0, ns / 1e6);
  return ns;
}

static double add_kind(text_t *text, const char *name, const cost_t *cost) {
  return add_row(text, name, cost->calls, cost->timed, cost_ns(cost));
}

/* A wheel fires in its turns, whose cost is the cost of firing. Returns the ns
 * that all calls took. */
static double add_table(text_t *text, const tally_t *tally) {
  const cost_t *costs = tally->costs, *stop = &costs[EXPIRE_STOP];
  double ns = 0;

  add(text, "%-8s%12s%12s%14s%12s\n", "", "calls", "timed", "ns per call",
      "ms in all");
  ns += add_kind(text, "init", &costs[INIT]);
  ns += add_kind(text, "start", &costs[START]);
  ns += add_kind(text, "again", &costs[AGAIN]);
  ns += add_kind(text, "stop", &costs[STOP]);
  ns += add_row(text, "fire", tally->fired,
                stop->timed < tally->fired ? stop->timed : tally->fired,
                cost_ns(stop) + cost_ns(&costs[EXPIRE_AGAIN]) +
                    cost_ns(&costs[TURN]));
  ns += add_kind(text, "close", &costs[CLOSE]);
  add(text, "%-8s%50.3f\n", "all", ns / 1e6);
  if (settings.with_wheel)
    add(text,
        "turns   %" PRIu64 ", %" PRIu64 " of them timed: fire is their "
        "time\n",
        costs[TURN].calls, costs[TURN].timed);
  return ns;
}

static double cpu_ns(void) {
  struct timespec used;

  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

static void add_timers(text_t *text, const tally_t *tally) {
  add(text,
      "timers  %" PRIu64 " at most, loops: %" PRIu64 "; active: %" PRIu64
      " at most, %" PRIu64 " now\n",
      tally->open_most, tally->loops, tally->active_most, tally->active);
  if (tally->restarted != 0)
    add(text,
        "restart %" PRIu64 " starts of a timer that was active, or that the "
        "program had stopped:\n        a refresh of a wheel's timer instead is "
        "one store, and only timers that\n        expect a peer (expect, "
        "refresh) are put back after a stall\n",
        tally->restarted);
}

static void add_report(text_t *text, const tally_t *tally,
                       uint64_t slot_bytes) {
  lateness_t late = lateness_of(tally);
  double ns, used_ns = cpu_ns();
  size_t each =
      settings.with_wheel ? sizeof(uvwheel_timer_t) : sizeof(uv_timer_t);

  add(text, "timers by %s (libuv %s)\n", settings.with_wheel ? "wheel" : "uv",
      uv_version_string());
  add(text, "a tool for measuring, not for production\n");
  ns = add_table(text, tally);
  add(text, "cpu     %.1f ms in %.1f ms; its timers took %.2f %% of that\n",
      used_ns / 1e6, (double)(now_ns() - began_ns) / 1e6, 100 * ns / used_ns);
  add(text,
      "late    %.3f ms on average, %.3f ms at most for 99 of 100 timers\n",
      late.mean_ms, late.p99_ms);
  add_timers(text, tally);
  add(text, "bytes   %" PRIu64 " in %zu for each timer",
      tally->open_most * each, each);
  if (settings.with_wheel)
    add(text, ", %" PRIu64 " for slots, as far as they fill", slot_bytes);
  add(text, "\n");
  if (!settings.with_wheel)
    add(text, "next    to measure a wheel, run it again --with wheel, and "
              "--compare the two\n        files (--output)\n");
}

static void compose_report(text_t *text) {
  tally_t sum = {.fired = 0};
  uint64_t slot_bytes = 0;

  for (record_t *record = atomic_load(&records); record != NULL;
       record = record->next) {
    add_tally(&sum, &record->tally);
    slot_bytes += record->slot_bytes;
  }
  add(text, "uvwheel-try: %s, process %ld: ", program_invocation_short_name,
      (long)getpid());
  if (sum.open_most != 0)
    add_report(text, &sum, slot_bytes);
  else if (getpid() == settings.command_pid)
    add(text, "no timer of libuv was seen.\nIt uses none, or has a libuv of "
              "its own, linked statically.\n");
  else
    text->length = 0;
}

/* ---- The file ----------------------------------------------------------- */

/* One thread at a time writes the file, and takes no signal meanwhile, so that
 * a handler finds no lock that its own thread holds. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

/* The file is complete at any moment: it is written beside its place. */
static bool replace_file(void) {
  text_t report = {.length = 0}, path = {.length = 0}, beside = {.length = 0};
  int file;

  compose_report(&report);
  if (report.length == 0)
    return true;
  add_path(&path);
  add(&beside, "%s.new", path.bytes);
  file = open(beside.bytes, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0)
    return false;
  emit(file, &report);
  (void)close(file);
  return rename(beside.bytes, path.bytes) == 0;
}

static sigset_t block_signals(void) {
  sigset_t all, before;

  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  return before;
}

static bool write_file(void) {
  sigset_t before;
  bool written;

  if (*settings.output == '\0')
    return false;
  before = block_signals();
  (void)pthread_mutex_lock(&writing);
  written = replace_file();
  (void)pthread_mutex_unlock(&writing);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return written;
}

static void *keep_fresh(void *unused) {
  const struct timespec quarter_second = {.tv_nsec = 250000000};

  (void)unused;
  while (nanosleep(&quarter_second, NULL) == 0)
    (void)write_file();
  return NULL;
}

/* A thread that takes none of the program's signals. */
static void begin_keeping_fresh(void) {
  sigset_t before = block_signals();
  pthread_t thread;

  if (pthread_create(&thread, NULL, keep_fresh, NULL) == 0)
    (void)pthread_detach(thread);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- When --------------------------------------------------------------- */

/* At exit as well. */
__attribute__((destructor)) static void write_report(void) {
  text_t text = {.length = 0};

  if (write_file())
    return;
  compose_report(&text);
  emit(STDERR_FILENO, &text);
}

static void on_end_signal(int number) {
  int error = errno;

  write_report();
  (void)kill(getpid(), number); /* the handler was called once */
  errno = error;
}

static void on_report_signal(int number) {
  int error = errno;

  (void)number;
  write_report();
  errno = error;
}

/* Unless the program handles it. The command ignores SIGUSR2 until here. */
static void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action;

  if (sigaction(number, NULL, &action) != 0 ||
      (action.sa_handler != SIG_DFL && number != SIGUSR2))
    return;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags;
  (void)sigaction(number, &action, NULL);
}

/* A child's report is of what it does itself. */
static void on_fork(void) {
  began_ns = now_ns();
  atomic_store(&is_begun, false);
  (void)pthread_mutex_init(&writing, NULL);
  for (record_t *record = atomic_load(&records); record != NULL;
       record = record->next)
    restart_tally(&record->tally, atomic_load(&record->loop) != NULL);
}

static void begin(void) {
  expect_known_libuv();
  look_at_libuv();
  (void)clock_ns(); /* not in the first call that is timed */
  handle(SIGTERM, on_end_signal, (int)SA_RESETHAND);
  handle(SIGINT, on_end_signal, (int)SA_RESETHAND);
  handle(SIGHUP, on_end_signal, (int)SA_RESETHAND);
}

void begin_reports(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  if (atomic_load(&is_begun))
    return;
  (void)pthread_once(&once, begin);
  if (!atomic_exchange(&is_begun, true) && *settings.output != '\0')
    begin_keeping_fresh();
}

/* The value that the command has set, or an empty text. */
static const char *said(const char *name) {
  const char *value = getenv(name);

  return value != NULL ? value : "";
}

__attribute__((constructor)) static void read_settings(void) {
  began_ns = now_ns();
  settings.with_wheel = strcmp(said("UVWHEEL_TRY_WITH"), "wheel") == 0;
  settings.output = said("UVWHEEL_TRY_OUTPUT");
  settings.tick_ms = strtoull(said("UVWHEEL_TRY_TICK"), NULL, 10);
  settings.command_pid = strtol(said("UVWHEEL_TRY_PID"), NULL, 10);
  handle(SIGUSR2, on_report_signal, SA_RESTART);
  (void)pthread_atfork(NULL, NULL, on_fork);
}
