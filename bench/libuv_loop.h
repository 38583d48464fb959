/* SPDX-License-Identifier: MIT */

/* The loop of all rivals. */

#ifndef BENCH_LIBUV_LOOP_H
#define BENCH_LIBUV_LOOP_H

#include <stdint.h>
#include <uv.h>

extern uv_loop_t bench_loop;
extern uint64_t libuv_timeout_ms; /* the times of set_times */
extern uint64_t libuv_repeat_ms;

void libuv_set_times(uint64_t timeout_ms, uint64_t repeat_ms);
void libuv_loop_open(void);
void libuv_close_handles(uv_loop_t *loop);
void libuv_close_loop(uv_loop_t *loop); /* and its handles */
void libuv_loop_close(void);
void libuv_release(void);
void libuv_loop_advance(void);
void libuv_loop_iterate(void);
void libuv_loop_run(uint64_t ms);

/* These rivals' lines in the table. */
#define LIBUV_CAN                                                          \
  BENCH_CAN, .close = libuv_loop_close, .set_times = libuv_set_times,      \
             .advance = libuv_loop_advance, .iterate = libuv_loop_iterate, \
             .run = libuv_loop_run

#endif /* BENCH_LIBUV_LOOP_H */
