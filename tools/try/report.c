/* SPDX-License-Identifier: MIT */

/* Counts and times the calls of the process, and reports what its timers did
 * and took: when it ends by exit or by a signal that it does not handle itself,
 * and on SIGUSR2. A signal handler may write a report, so none of this
 * allocates memory. */

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

/* No such call takes that long: the process was interrupted. */
#define LONGEST_CALL_NS 100000
#define LONGEST_LOOK_NS 2000

static uint64_t read_ns(clockid_t clock) {
  struct timespec now;

  (void)clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t now_ns(void) {
  return read_ns(CLOCK_MONOTONIC);
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
  tally->costs[kind].calls++;
  return (stopwatch_t){&tally->costs[kind], now_ns()};
}

static void note(cost_t *cost, uint64_t took_ns, uint64_t beside_ns,
                 uint64_t longest_ns) {
  uint64_t ns = took_ns > beside_ns ? took_ns - beside_ns : 0;

  if (ns > longest_ns)
    return;
  cost->timed++;
  cost->ns += ns;
}

void end_call(const stopwatch_t *watch) {
  note(watch->cost, now_ns() - watch->began_ns, clock_ns(), LONGEST_CALL_NS);
}

void end_turn(const stopwatch_t *watch, uint64_t ended_ns,
              uint64_t callbacks_ns, uint64_t looked) {
  note(watch->cost, ended_ns - watch->began_ns, callbacks_ns + clock_ns(),
       LONGEST_CALL_NS + looked * LONGEST_LOOK_NS);
}

static double mean(uint64_t sum, uint64_t count) {
  return count != 0 ? (double)sum / (double)count : 0;
}

/* Ns that all calls of the kind took. */
static double cost_ns(const cost_t *cost) {
  return mean(cost->ns, cost->timed) * (double)cost->calls;
}

void note_late(tally_t *tally, uint64_t due_ns, uint64_t fired_ns) {
  uint64_t ns = fired_ns > due_ns ? fired_ns - due_ns : 0;

  tally->late_count++;
  tally->late_ns += ns;
  if (tally->late_most_ns < ns)
    tally->late_most_ns = ns;
}

/* ---- Many tallies ------------------------------------------------------- */

static void add_tally(tally_t *sum, const tally_t *tally) {
  const uint64_t *counts = (const uint64_t *)(const void *)tally;
  uint64_t *into = (uint64_t *)(void *)sum;

  for (size_t i = 0; i < offsetof(tally_t, late_most_ns) / sizeof *counts; i++)
    into[i] += counts[i];
  if (sum->late_most_ns < tally->late_most_ns)
    sum->late_most_ns = tally->late_most_ns;
}

/* A child begins anew, with the timers that it has inherited. */
static void restart_tally(tally_t *tally, bool has_loop) {
  tally_t begun = {
      .loops = has_loop, .open = tally->open, .open_most = tally->open};

  *tally = begun;
}

/* ---- Where it goes ------------------------------------------------------ */

settings_t settings = {.output = ""};

static uint64_t began_ns;

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
                      double ns) {
  add(text, "%-8s%12" PRIu64 "%14.1f%12.3f\n", name, calls,
      calls != 0 ? ns / (double)calls : 0, ns / 1e6);
  return ns;
}

/* A wheel fires in its turns, whose cost is the cost of firing. Returns the ns
 * that all calls took. */
static double add_table(text_t *text, const tally_t *tally) {
  static const char *const names[] = {[INIT] = "init",
                                      [START] = "start",
                                      [AGAIN] = "again",
                                      [STOP] = "stop",
                                      [CLOSE] = "close"};
  const cost_t *costs = tally->costs;
  double ns = 0;

  add(text, "%-8s%12s%14s%12s\n", "", "calls", "ns per call", "ms in all");
  for (kind_t kind = INIT; kind <= CLOSE; kind++)
    ns += add_row(text, names[kind], costs[kind].calls, cost_ns(&costs[kind]));
  ns += add_row(text, "fire", tally->fired,
                cost_ns(&costs[EXPIRE_STOP]) + cost_ns(&costs[EXPIRE_AGAIN]) +
                    cost_ns(&costs[TURN]));
  add(text, "%-8s%38.3f\n", "all", ns / 1e6);
  if (settings.with_wheel)
    add(text, "checks  %" PRIu64 ": fire is their time\n", costs[TURN].calls);
  return ns;
}

static void add_timers(text_t *text, const tally_t *tally) {
  add(text, "timers  %" PRIu64 " at most, loops: %" PRIu64 "\n",
      tally->open_most, tally->loops);
  if (tally->restarted != 0)
    add(text,
        "restart %" PRIu64 " starts of a timer that was active, or that the "
        "program had stopped:\n        a refresh of a wheel's timer instead is "
        "one store, and only timers that\n        expect a peer (expect, "
        "refresh) are put back after a stall\n",
        tally->restarted);
}

static void add_report(text_t *text, const tally_t *tally) {
  double ns, used_ns = (double)read_ns(CLOCK_PROCESS_CPUTIME_ID);

  add(text, "timers by %s (libuv %s)\n", settings.with_wheel ? "wheel" : "uv",
      uv_version_string());
  add(text, "a tool for measuring, not for production\n");
  ns = add_table(text, tally);
  add(text, "cpu     %.1f ms in %.1f ms; its timers took %.2f %% of that\n",
      used_ns / 1e6, (double)(now_ns() - began_ns) / 1e6, 100 * ns / used_ns);
  add(text, "late    %.3f ms on average, %.3f ms at most\n",
      mean(tally->late_ns, tally->late_count) / 1e6,
      (double)tally->late_most_ns / 1e6);
  add_timers(text, tally);
  if (!settings.with_wheel)
    add(text, "next    to measure a wheel, run it again --with wheel\n");
}

static void compose_report(text_t *text) {
  tally_t sum = {.fired = 0};

  for (record_t *record = atomic_load(&records); record != NULL;
       record = record->next)
    add_tally(&sum, &record->tally);
  add(text, "uvwheel-try: %s, process %ld: ", program_invocation_short_name,
      (long)getpid());
  if (sum.open_most != 0)
    add_report(text, &sum);
  else if (getpid() == settings.command_pid)
    add(text, "no timer of libuv was seen.\nIt uses none, or has a libuv of "
              "its own, linked statically.\n");
  else
    text->length = 0;
}

/* ---- When --------------------------------------------------------------- */

/* At exit as well. */
__attribute__((destructor)) static void write_report(void) {
  text_t report = {.length = 0}, path = {.length = 0};
  int file = STDERR_FILENO;

  compose_report(&report);
  if (report.length == 0)
    return;
  if (*settings.output != '\0') {
    add_path(&path);
    file = open(path.bytes, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
      file = STDERR_FILENO;
  }
  emit(file, &report);
  if (file != STDERR_FILENO)
    (void)close(file);
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
  for (record_t *record = atomic_load(&records); record != NULL;
       record = record->next)
    restart_tally(&record->tally, atomic_load(&record->loop) != NULL);
}

static void begin(void) {
  expect_known_libuv();
  (void)clock_ns(); /* not in the first call that is timed */
  handle(SIGTERM, on_end_signal, (int)SA_RESETHAND);
  handle(SIGINT, on_end_signal, (int)SA_RESETHAND);
  handle(SIGHUP, on_end_signal, (int)SA_RESETHAND);
}

void begin_reports(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  (void)pthread_once(&once, begin);
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
