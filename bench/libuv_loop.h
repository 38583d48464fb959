/* SPDX-License-Identifier: MIT */

/* The libuv loop of the two peers that need one. */

#ifndef BENCH_LIBUV_LOOP_H
#define BENCH_LIBUV_LOOP_H

#include <stdint.h>
#include <uv.h>

extern uv_loop_t bench_loop;

void libuv_loop_open(void);
void libuv_loop_close(void);
void libuv_loop_advance(void);
void libuv_loop_turn(void);
void libuv_loop_run(uint64_t ms);

#endif /* BENCH_LIBUV_LOOP_H */
