/* SPDX-License-Identifier: MIT */

/* Reports what the timers of the process did and took: when it ends by exit or
 * by a signal that it does not handle itself, and on SIGUSR2. A signal handler
 * here needs no memory and takes no lock; a wheel's page needs both, and the
 * loop's thread, so the handler wakes the loop for it. */

#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl*) */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "try.h"

settings_t settings = {.stall_ms = UINT32_MAX, .output = ""};

static uint64_t began_ns;
static atomic_int end_signal;

/* ---- Where it goes ------------------------------------------------------ */

typedef struct text_s {
  char bytes[4096];
  size_t length;
} text_t;

__attribute__((format(printf, 2, 3))) static void
add(text_t *text, const char *format, ...)
{
  size_t left = sizeof text->bytes - text->length;
  va_list arguments;
  int length;

  va_start(arguments, format);
  length = vsnprintf(text->bytes + text->length, left, format, arguments);
  va_end(arguments);
  if (length > 0)
    text->length += (size_t)length < left ? (size_t)length : left - 1;
}

/* The command's own process writes to the file of --output, other processes to
 * files of their own beside it. */
static int
open_output(void)
{
  static atomic_bool is_begun;
  int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  text_t path = {.length = 0};
  int file;

  if (*settings.output == '\0')
    return STDERR_FILENO;
  add(&path, "%s", settings.output);
  if (getpid() != settings.command_pid)
    add(&path, ".%ld", (long)getpid());
  if (!atomic_exchange(&is_begun, true))
    flags |= O_TRUNC;
  file = open(path.bytes, flags, 0666);
  return file >= 0 ? file : STDERR_FILENO;
}

static void
emit(const char *bytes, size_t length)
{
  int file = open_output();

  while (length > 0) {
    ssize_t written = write(file, bytes, length);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      break;
    bytes += written;
    length -= (size_t)written;
  }
  if (file != STDERR_FILENO)
    (void)close(file);
}

/* ---- The wheels' pages -------------------------------------------------- */

/* A wheel's page looks at all its timers. At the end of the process their
 * memory may be gone, so the page is written before, and kept. */
void
keep_page(record_t *record)
{
  uvwheel_stats_t stats;
  size_t length;
  FILE *stream;

  if (!record->has_wheel)
    return;
  uvwheel_get_stats(&record->wheel, &stats);
  if (stats.started == 0)
    return;
  free(record->page);
  record->page = NULL;
  stream = open_memstream(&record->page, &length);
  if (stream == NULL)
    return;
  uvwheel_print(&record->wheel, stream);
  (void)fclose(stream);
}

static void
emit_page(const record_t *record)
{
  if (record->page != NULL)
    emit(record->page, strlen(record->page));
}

/* ---- The report --------------------------------------------------------- */

typedef struct row_s {
  const char *name;
  uint64_t calls;
  uint64_t timed;
  double ns;
} row_t;

static row_t
row_of(const char *name, const tally_t *tally, kind_t kind)
{
  const cost_t *cost = &tally->costs[kind];

  return (row_t){name, cost->calls, cost->timed, cost_ns(cost)};
}

/* The cost of firing, with either. */
static row_t
fire_row(const tally_t *tally)
{
  const cost_t *costs = tally->costs;

  return (row_t){"fire", tally->fired,
                 costs[EXPIRE_STOP].timed + costs[TURN].timed,
                 cost_ns(&costs[EXPIRE_STOP]) + cost_ns(&costs[EXPIRE_AGAIN]) +
                     cost_ns(&costs[TURN])};
}

/* Returns the ns that all calls took. */
static double
add_table(text_t *text, const tally_t *tally)
{
  const row_t rows[] = {
      row_of("init", tally, INIT),
      row_of("start", tally, START),
      row_of("again", tally, AGAIN),
      row_of("stop", tally, STOP),
      fire_row(tally),
      row_of("close", tally, CLOSE),
  };
  double ns = 0;

  add(text, "%-8s%12s%12s%14s%12s\n", "", "calls", "timed", "ns per call",
      "ms in all");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const row_t *row = &rows[i];
    add(text, "%-8s%12" PRIu64 "%12" PRIu64 "%14.1f%12.3f\n", row->name,
        row->calls, row->timed,
        row->calls != 0 ? row->ns / (double)row->calls : 0, row->ns / 1e6);
    ns += row->ns;
  }
  add(text, "%-8s%50.3f\n", "all", ns / 1e6);
  return ns;
}

static double
cpu_ns(void)
{
  struct timespec used;

  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

static void
add_memory(text_t *text, const tally_t *tally, uint64_t slot_bytes)
{
  size_t each =
      settings.with_wheel ? sizeof(uvwheel_timer_t) : sizeof(uv_timer_t);

  add(text, "bytes   %" PRIu64 " in %zu for each timer",
      tally->open_most * each, each);
  if (settings.with_wheel)
    add(text, ", %" PRIu64 " for slots, as far as they fill", slot_bytes);
  add(text, "\n");
}

static void
add_timers(text_t *text, const tally_t *tally, int loops)
{
  double average =
      tally->seen != 0 ? (double)tally->seen_active / (double)tally->seen : 0;

  add(text,
      "timers  %" PRIu64 " at most, loops: %d; active: %" PRIu64
      " at most, %.1f on average, %" PRIu64 " now\n",
      tally->open_most, loops, tally->active_most, average, tally->active);
  if (tally->restarted != 0)
    add(text,
        "restart %" PRIu64 " of the calls of start and again found the timer "
        "active: a\n        refresh of a wheel's timer instead is one store\n",
        tally->restarted);
}

static void
add_dropped(text_t *text, const tally_t *tally)
{
  uint64_t dropped = 0;

  for (int kind = 0; kind < KINDS; kind++)
    dropped += tally->costs[kind].dropped;
  if (dropped != 0)
    add(text,
        "dropped %" PRIu64 " timed calls during which the process was "
        "interrupted\n",
        dropped);
}

static void
add_report(text_t *text, const tally_t *tally, uint64_t slot_bytes, int loops)
{
  double ns, used_ns = cpu_ns();

  add(text, "timers by %s (libuv %s)\n", settings.with_wheel ? "wheel" : "uv",
      uv_version_string());
  add(text, "a tool for measuring, not for production\n");
  ns = add_table(text, tally);
  add(text, "cpu     %.1f ms in %.1f ms; its timers took %.2f %% of that\n",
      used_ns / 1e6, (double)(now_ns() - began_ns) / 1e6, 100 * ns / used_ns);
  add_timers(text, tally, loops);
  add_memory(text, tally, slot_bytes);
  add_dropped(text, tally);
  if (!settings.with_wheel)
    add(text, "next    what a wheel takes: run it again --with wheel, and "
              "--compare the two\n        files (--output)\n");
}

static void
write_report(void)
{
  tally_t sum = {.fired = 0};
  text_t text = {.length = 0};
  uint64_t slot_bytes = 0;
  int loops = 0;

  for (record_t *record = atomic_load(&records); record != NULL;
       record = record->next) {
    add_tally(&sum, &record->tally);
    slot_bytes += record->slot_bytes;
    loops++;
  }
  add(&text, "uvwheel-try: %s, process %ld: ", program_invocation_short_name,
      (long)getpid());
  if (sum.open_most != 0)
    add_report(&text, &sum, slot_bytes, loops);
  else if (getpid() == settings.command_pid)
    add(&text, "no timer of libuv was seen.\nIt uses none, or has a libuv of "
               "its own, linked statically.\n");
  else
    return;
  emit(text.bytes, text.length);
}

/* ---- When --------------------------------------------------------------- */

static void
finish(void)
{
  write_report();
  for (record_t *record = atomic_load(&records); record != NULL;
       record = record->next)
    emit_page(record);
}

void
on_wake(uv_async_t *async)
{
  record_t *record = async->data;
  int number = atomic_load(&end_signal);

  keep_page(record);
  if (number == 0) {
    emit_page(record);
    return;
  }
  finish();
  (void)kill(getpid(), number);
}

/* Returns whether there is any that runs. */
static bool
wake_loops(void)
{
  if (!settings.with_wheel || atomic_load(&running_loops) == 0)
    return false;
  for (record_t *record = atomic_load(&records); record != NULL;
       record = record->next)
    if (record->has_wheel)
      (void)uv_async_send(&record->async);
  return true;
}

/* A loop that is woken ends the process. If it is stuck, a second signal does:
 * the handler is called once. */
static void
on_end_signal(int number)
{
  int error = errno;

  atomic_store(&end_signal, number);
  if (!wake_loops()) {
    write_report();
    (void)kill(getpid(), number);
  }
  errno = error;
}

static void
on_page_signal(int number)
{
  int error = errno;

  (void)number;
  if (!wake_loops())
    write_report();
  errno = error;
}

/* Unless the program handles it. */
static void
handle(int number, void (*handler)(int), int flags)
{
  struct sigaction action;

  if (sigaction(number, NULL, &action) != 0 || action.sa_handler != SIG_DFL)
    return;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags;
  (void)sigaction(number, &action, NULL);
}

/* A child's report is of what it does itself. */
static void
on_fork(void)
{
  began_ns = now_ns();
  for (record_t *record = atomic_load(&records); record != NULL;
       record = record->next) {
    restart_tally(&record->tally);
    free(record->page);
    record->page = NULL;
  }
}

static void
begin(void)
{
  expect_known_libuv();
  (void)clock_ns(); /* not in the first call that is timed */
  handle(SIGTERM, on_end_signal, (int)SA_RESETHAND);
  handle(SIGINT, on_end_signal, (int)SA_RESETHAND);
  handle(SIGHUP, on_end_signal, (int)SA_RESETHAND);
  handle(SIGUSR2, on_page_signal, SA_RESTART);
  (void)pthread_atfork(NULL, NULL, on_fork);
}

void
begin_reports(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  (void)pthread_once(&once, begin);
}

/* What the command sets, or an empty text. */
static const char *
said(const char *name)
{
  const char *value = getenv(name);

  return value != NULL ? value : "";
}

__attribute__((constructor)) static void
read_settings(void)
{
  began_ns = now_ns();
  settings.with_wheel = strcmp(said("UVWHEEL_TRY_WITH"), "wheel") == 0;
  settings.output = said("UVWHEEL_TRY_OUTPUT");
  settings.tick_ms = strtoull(said("UVWHEEL_TRY_TICK"), NULL, 10);
  if (*said("UVWHEEL_TRY_STALL") != '\0')
    settings.stall_ms = (uint32_t)strtoul(said("UVWHEEL_TRY_STALL"), NULL, 10);
  settings.command_pid = strtol(said("UVWHEEL_TRY_PID"), NULL, 10);
}

/* The timers of the loop that this thread runs, inside one of whose callbacks
 * exit was called, are all still there. */
__attribute__((destructor)) static void
report_at_exit(void)
{
  record_t *record = running != NULL ? find_record(running) : NULL;

  if (record != NULL)
    keep_page(record);
  finish();
}
