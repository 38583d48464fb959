/* SPDX-License-Identifier: MIT */

/* A program that knows nothing of uvwheel: it does with uv_timer_t whatever
 * libuv allows, and prints what came of it, which must be the same whoever
 * serves its timers, on a busy machine as well. With `wait` it does not end by
 * itself, with `leave` it exits in a callback and with `return` from main, each
 * with active timers. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define MANY 2000

static uv_loop_t loop;

static void
expect(const char *what, int value)
{
  printf("%s: %d\n", what, value);
}

static int closed;

static void
on_closed(uv_handle_t *handle)
{
  (void)handle;
  closed++;
}

static void
end(uv_timer_t *timer)
{
  uv_close((uv_handle_t *)timer, on_closed);
}

static void
init(uv_timer_t *timer, const char *name)
{
  memset(timer, 0xa5, sizeof *timer);
  uv_timer_init(&loop, timer);
  timer->data = (void *)(uintptr_t)name;
}

/* ---- One after the other ------------------------------------------------ */

static void
on_named(uv_timer_t *timer)
{
  printf("%s, active %d\n", (const char *)timer->data,
         uv_is_active((uv_handle_t *)timer));
  end(timer);
}

static void
fire_in_order(void)
{
  static const struct {
    const char *name;
    uint64_t timeout;
  } rows[] = {{"thirty", 30},    {"ten", 10}, {"twenty", 20},
              {"ten again", 10}, {"zero", 0}, {"thirty again", 30}};
  uv_timer_t timers[6];

  for (int i = 0; i < 6; i++) {
    init(&timers[i], rows[i].name);
    uv_timer_start(&timers[i], on_named, rows[i].timeout, 0);
  }
  expect("order", uv_run(&loop, UV_RUN_DEFAULT));
}

static int repeats;

static void
on_repeat(uv_timer_t *timer)
{
  expect("repeat, active", uv_is_active((uv_handle_t *)timer));
  if (++repeats == 3)
    uv_timer_set_repeat(timer, 7);
  if (repeats == 5) {
    uv_timer_stop(timer);
    expect("repeat", (int)uv_timer_get_repeat(timer));
    end(timer);
  }
}

static void
repeat(void)
{
  uv_timer_t timer;

  init(&timer, "repeating");
  uv_timer_start(&timer, on_repeat, 4, 5);
  expect("repeats", uv_run(&loop, UV_RUN_DEFAULT));
}

static uv_timer_t late, early;

static void
on_early(uv_timer_t *timer)
{
  expect("due in", uv_timer_get_due_in(&late) > 500000);
  expect("again", uv_timer_again(&late));
  expect("start closing", (end(timer), uv_timer_start(timer, on_named, 1, 0)));
  expect("stop closing", uv_timer_stop(timer));
  expect("again closing", uv_timer_again(timer));
}

static void
misuse_and_again(void)
{
  uv_timer_t never, middle;

  init(&late, "late");
  init(&early, "early");
  init(&never, "never");
  init(&middle, "middle");
  expect("again unstarted", uv_timer_again(&never));
  expect("start without callback", uv_timer_start(&never, NULL, 1, 1));
  expect("stop unstarted", uv_timer_stop(&never));
#if UV_VERSION_HEX >= 0x012900 /* libuv 1.40 reads what memory held before */
  expect("due in unstarted", (int)uv_timer_get_due_in(&never));
#endif
  uv_timer_start(&late, on_named, 600000, 60);
  uv_timer_start(&early, on_early, 10, 0);
  uv_timer_start(&middle, on_named, 40, 0);
  uv_timer_start(&never, on_named, UINT64_MAX, 0);
  expect("again without repeat", uv_timer_again(&never));
  uv_timer_start(&never, on_named, 15, 0);
  uv_timer_stop(&never);
  end(&never);
  expect("misuse", uv_run(&loop, UV_RUN_DEFAULT));
}

/* ---- Who keeps the loop alive ------------------------------------------- */

static void
count(uv_handle_t *handle, void *counted)
{
  int *counts = counted;

  counts[0]++;
  counts[1] += uv_is_active(handle);
  counts[2] += uv_has_ref(handle);
}

static void
print_loop(const char *what)
{
  int counts[3] = {0};

  uv_walk(&loop, count, counts);
  printf("%s: %d handles, %d active, %d referenced, loop %salive\n", what,
         counts[0], counts[1], counts[2], uv_loop_alive(&loop) ? "" : "not ");
}

static void
on_named_closed(uv_handle_t *handle)
{
  printf("closed %s\n", (const char *)handle->data);
}

static void
close_it(uv_handle_t *handle, void *unused)
{
  (void)unused;
  if (!uv_is_closing(handle))
    uv_close(handle, on_named_closed);
}

static void
refer(void)
{
  uv_timer_t one, other;

  print_loop("empty");
  init(&one, "one");
  init(&other, "other");
  print_loop("idle");
  uv_timer_start(&one, on_named, 600000, 0);
  print_loop("active");
  uv_unref((uv_handle_t *)&one);
  print_loop("unreferenced");
  expect("unreferenced", uv_run(&loop, UV_RUN_DEFAULT));
  uv_unref((uv_handle_t *)&other);
  uv_timer_start(&other, on_named, 600000, 0);
  uv_ref((uv_handle_t *)&one);
  print_loop("one referenced");
  uv_timer_stop(&one);
  print_loop("stopped");
  expect("not waiting", uv_run(&loop, UV_RUN_ONCE));
  expect("busy", uv_loop_close(&loop));
  uv_walk(&loop, close_it, NULL);
  print_loop("closing");
  expect("all closed", uv_run(&loop, UV_RUN_DEFAULT));
}

/* ---- Many at a time ----------------------------------------------------- */

static uv_timer_t many[MANY];
static int fired;

/* Each stops one that is due at the same time, and frees itself. */
static void
on_many(uv_timer_t *timer)
{
  uv_timer_t *next = timer + MANY / 2;

  fired++;
  uv_timer_stop(next);
  uv_close((uv_handle_t *)next, NULL);
  uv_close((uv_handle_t *)timer, NULL);
}

static void
start_many(void)
{
  fired = 0;
  for (int i = 0; i < MANY; i++) {
    uv_timer_init(&loop, &many[i]);
    uv_timer_start(&many[i], on_many, 1000, 0);
  }
  for (int i = 0; i < MANY; i++)
    uv_timer_start(&many[i], on_many, 5, 0);
  expect("many", uv_run(&loop, UV_RUN_DEFAULT));
  expect("fired", fired);
}

static uv_fs_poll_t poll;

static void
on_polled(uv_fs_poll_t *handle, int status, const uv_stat_t *before,
          const uv_stat_t *now)
{
  (void)before;
  (void)now;
  expect("polled", status);
  uv_close((uv_handle_t *)handle, NULL);
}

/* libuv has a timer of its own for this. */
static void
poll_file(void)
{
  uv_fs_poll_init(&loop, &poll);
  uv_fs_poll_start(&poll, on_polled, "/nonexistent", 5);
  expect("poll", uv_run(&loop, UV_RUN_DEFAULT));
}

static void
do_all(void)
{
  fire_in_order();
  repeats = 0;
  repeat();
  misuse_and_again();
  refer();
  start_many();
  poll_file();
  expect("close", uv_loop_close(&loop));
  expect("closed", closed);
}

static void
do_in_thread(void *unused)
{
  (void)unused;
  uv_loop_init(&loop);
  do_all();
}

/* ---- Ends --------------------------------------------------------------- */

static const char *how;

static void
on_tick(uv_timer_t *timer)
{
  if (strcmp(how, "leave") == 0)
    exit(3);
  if (timer->data == NULL) { /* for the first time: the loop runs */
    puts("ready");
    fflush(stdout);
  }
  timer->data = timer;
}

static int
end_otherwise(void)
{
  uv_timer_t *timer = malloc(sizeof *timer);
  uv_timer_t on_stack;

  uv_timer_init(&loop, timer);
  uv_timer_init(&loop, &on_stack);
  timer->data = NULL;
  uv_timer_start(timer, on_tick, 5, 5);
  uv_timer_start(&on_stack, on_tick, 600000, 0);
  if (strcmp(how, "return") != 0)
    uv_run(&loop, UV_RUN_DEFAULT);
  memset(timer, 0xa5, sizeof *timer);
  free(timer);
  return 0;
}

int
main(int argc, char **argv)
{
  uv_thread_t thread;
  int status;
  pid_t child;

  uv_loop_init(&loop);
  if (argc > 1) {
    how = argv[1];
    return end_otherwise();
  }
  do_all();
  uv_loop_init(&loop);
  do_all();
  uv_thread_create(&thread, do_in_thread, NULL);
  uv_thread_join(&thread);
  fflush(stdout);
  child = fork();
  uv_loop_init(&loop);
  do_all();
  if (child == 0)
    return 0;
  waitpid(child, &status, 0);
  expect("child", status);
  return 0;
}
