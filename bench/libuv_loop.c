/* SPDX-License-Identifier: MIT */

#include "bench.h"

uv_loop_t bench_loop;
uint64_t libuv_timeout_ms;
uint64_t libuv_repeat_ms;

void libuv_set_times(uint64_t timeout_ms, uint64_t repeat_ms) {
  libuv_timeout_ms = timeout_ms;
  libuv_repeat_ms = repeat_ms;
}

void libuv_loop_open(void) {
  if (uv_loop_init(&bench_loop) != 0)
    bench_die("libuv: no loop");
}

static void close_handle(uv_handle_t *handle, void *unused) {
  (void)unused;
  uv_close(handle, NULL);
}

/* Closes all handles of the loop. */
static void close_handles(uv_loop_t *loop) {
  uv_walk(loop, close_handle, NULL);
  uv_run(loop, UV_RUN_NOWAIT);
}

void libuv_close_loop(uv_loop_t *loop) {
  close_handles(loop);
  if (uv_loop_close(loop) != 0)
    bench_die("libuv: the loop has handles left");
}

void libuv_loop_close(void) {
  libuv_close_loop(&bench_loop);
}

void libuv_release(void) {
  close_handles(&bench_loop);
}

void libuv_loop_advance(void) {
  uv_update_time(&bench_loop);
}

void libuv_loop_iterate(void) {
  uv_run(&bench_loop, UV_RUN_NOWAIT);
}

static void on_end(uv_timer_t *timer) {
  uv_stop(timer->loop);
  uv_close((uv_handle_t *)timer, NULL);
}

void libuv_loop_run(uint64_t ms) {
  static uv_timer_t end;

  uv_timer_init(&bench_loop, &end);
  uv_timer_start(&end, on_end, ms, 0);
  uv_run(&bench_loop, UV_RUN_DEFAULT);
}
