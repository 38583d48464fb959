/* SPDX-License-Identifier: MIT */

/* A program that knows nothing of uvwheel: it does with uv_timer_t whatever
 * libuv allows, and prints what came of it, which must be the same whoever
 * serves its timers, on a busy machine as well.
 *
 * With a number and steps it takes these in as many loops, one after the other.
 * With `wait` it does not end by itself, with `leave` it exits in a callback
 * and with `return` from main. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

static uv_loop_t loop;

static void expect(const char *what, int value) {
  printf("%s: %d\n", what, value);
}

/* ---- Steps -------------------------------------------------------------- */

/* A letter for what to do, the timer, then :timeout and +repeat. */
static const char *const steps[] = {
    /* init and start: the order of their times */
    "i0 s0:30 i1 s1:10 i2 s2:20 i3 s3:10 i4 s4:0 i5 s5:30 r",
    /* repeats */
    "i0 s0:4+5 r",
    /* again, start with no callback and stop: refused, or without effect */
    "i6 a6 n6:1+1 x6 s6:18446744073709551615 a6 s6:15 x6 c6 s6:1",
    "i7 s7:3600000+60 i8 s8:10 r",
    /* restart with what the timer's own fields hold */
    "i9 s9:3600000 x9 t9:5 r i9 s9:3600000+7 t9:6 r",
    /* unref and ref: who keeps the loop alive */
    "i10 i11 s10:3600000 u10 r u11 s11:3600000 f10 x10 o e c10 c11 r",
};

/* In the timer's callbacks: after so many. A timer that is not active after its
 * callback closes itself. */
static const struct {
  int timer, after;
  const char *steps;
} reactions[] = {
    {0, 3, "p0+7"}, {0, 5, "x0"},   {8, 1, "a7 c8 s8:1 x8 a8"},
    {7, 1, "c7"},   {9, 1, "t9:3"}, {9, 2, "x9"},
};

static uv_timer_t timers[12];
static int fires[12], closed;

static void on_closed(uv_handle_t *handle) {
  (void)handle;
  closed++;
}

static void on_timer(uv_timer_t *timer);

static int take(char op, uv_timer_t *timer, uint64_t timeout, uint64_t repeat) {
  switch (op) {
  case 'i':
    memset(timer, 0xa5, sizeof *timer);
    fires[timer - timers] = 0;
    return uv_timer_init(&loop, timer);
  case 's':
    return uv_timer_start(timer, on_timer, timeout, repeat);
  case 'n':
    return uv_timer_start(timer, NULL, timeout, repeat);
  case 't':
    return uv_timer_start(timer, timer->timer_cb, timeout, timer->repeat);
  case 'x':
    return uv_timer_stop(timer);
  case 'a':
    return uv_timer_again(timer);
  case 'p':
    return uv_timer_set_repeat(timer, repeat), 0;
  case 'u':
    return uv_unref((uv_handle_t *)timer), 0;
  case 'f':
    return uv_ref((uv_handle_t *)timer), 0;
  case 'c':
    return uv_close((uv_handle_t *)timer, on_closed), 0;
  case 'e':
    return uv_loop_close(&loop);
  default:
    return uv_run(&loop, op == 'o' ? UV_RUN_ONCE : UV_RUN_DEFAULT);
  }
}

static void count(uv_handle_t *handle, void *counted) {
  int *counts = counted;

  counts[0]++;
  counts[1] += uv_is_active(handle);
  counts[2] += uv_has_ref(handle);
}

static void print_loop(void) {
  int counts[3] = {0};

  uv_walk(&loop, count, counts);
  printf("  %d handles, %d active, %d referenced, loop alive %d\n", counts[0],
         counts[1], counts[2], uv_loop_alive(&loop));
}

/* What a program can read of a timer. The time until it is due is the same each
 * time as long as the loop has not run since. */
static void print_timer(const uv_timer_t *timer, int starts) {
  printf("  active %d, repeat %d %d", uv_is_active((const uv_handle_t *)timer),
         (int)uv_timer_get_repeat(timer), (int)timer->repeat);
  if (starts && timer->timeout != UINT64_MAX)
    printf(", due in %d %d", (int)uv_timer_get_due_in(timer),
           (int)(timer->timeout - uv_now(&loop)));
  puts("");
}

static void take_steps(const char *text, int in_callback) {
  while (*text != '\0') {
    char *end, op = *text;
    uv_timer_t *timer = &timers[strtoul(text + 1, &end, 10)];
    uint64_t timeout = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
    uint64_t repeat = *end == '+' ? strtoull(end + 1, &end, 10) : 0;
    int status = take(op, timer, timeout, repeat);

    printf("%.*s: %d\n", (int)(end - text), text, status);
    if (strchr("roe", op) == NULL)
      print_timer(timer, status == 0 && strchr("st", op) != NULL);
    if (!in_callback)
      print_loop();
    text = end + (*end == ' ');
  }
}

static void on_timer(uv_timer_t *timer) {
  int index = (int)(timer - timers);

  fires[index]++;
  printf("timer %d, active %d\n", index, uv_is_active((uv_handle_t *)timer));
  for (size_t i = 0; i < sizeof reactions / sizeof *reactions; i++)
    if (reactions[i].timer == index && reactions[i].after == fires[index])
      take_steps(reactions[i].steps, 1);
  if (!uv_is_active((uv_handle_t *)timer) &&
      !uv_is_closing((uv_handle_t *)timer))
    uv_close((uv_handle_t *)timer, on_closed);
}

/* ---- A file -------------------------------------------------------------- */

static uv_fs_poll_t poll;

static void on_polled(uv_fs_poll_t *handle, int status, const uv_stat_t *before,
                      const uv_stat_t *now) {
  (void)before, (void)now;
  expect("polled", status);
  uv_close((uv_handle_t *)handle, NULL);
}

/* libuv has a timer of its own for this. */
static void poll_file(void) {
  uv_fs_poll_init(&loop, &poll);
  uv_fs_poll_start(&poll, on_polled, "/nonexistent", 5);
  expect("poll", uv_run(&loop, UV_RUN_DEFAULT));
}

static void do_all(void *unused) {
  (void)unused;
  uv_loop_init(&loop);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    take_steps(steps[i], 0);
  poll_file();
  expect("close", uv_loop_close(&loop));
  expect("closed", closed);
}

static int do_the_same(void) {
  static char output[1 << 16]; /* child and parent write one after the other */
  uv_thread_t thread;
  int status;
  pid_t child;

  setvbuf(stdout, output, _IOFBF, sizeof output);
  do_all(NULL);
  do_all(NULL);
  uv_thread_create(&thread, do_all, NULL);
  uv_thread_join(&thread);
  fflush(stdout);
  child = fork();
  do_all(NULL);
  if (child == 0)
    return 0;
  waitpid(child, &status, 0);
  expect("child", status);
  return 0;
}

/* ---- Other ends --------------------------------------------------------- */

static void on_tick(uv_timer_t *timer) {
  if (timer->data != NULL)
    exit(3);
  puts("fired");
  fflush(stdout);
}

/* Runs two timers, or returns from main with them active and their memory
 * gone. */
static int wait_for_end(const char *how) {
  uv_timer_t *timer = malloc(sizeof *timer);
  uv_timer_t on_stack;

  uv_loop_init(&loop);
  uv_timer_init(&loop, timer);
  uv_timer_init(&loop, &on_stack);
  timer->data = strcmp(how, "leave") == 0 ? timer : NULL;
  uv_timer_start(timer, on_tick, 5, 5);
  uv_timer_start(&on_stack, on_tick, 3600000, 0);
  if (strcmp(how, "return") != 0) {
    puts("ready");
    fflush(stdout);
    uv_run(&loop, UV_RUN_DEFAULT);
  }
  memset(timer, 0xa5, sizeof *timer);
  free(timer);
  return 0;
}

int main(int argc, char **argv) {
  char *rest;

  if (argc == 1)
    return do_the_same();
  for (long left = strtol(argv[1], &rest, 10); left > 0; left--) {
    uv_loop_init(&loop);
    for (int i = 2; i < argc; i++)
      take_steps(argv[i], 1);
    uv_loop_close(&loop);
  }
  return *rest != '\0' ? wait_for_end(argv[1]) : 0;
}
