/* SPDX-License-Identifier: MIT */

/* The floor: no timer at all. Each operation is the one thing that it cannot do
 * without, to read and write a word of the connection, in a function of a
 * shared library, as those of uvwheel and libuv are. */

#include "bench.h"
#include "libuv_loop.h"

static void touch(const uint32_t *order, size_t count) {
  bench_each(order, count, floor_touch);
}

static void nothing(void) {
}

static const struct operations operations = {
    .timer_bytes = sizeof(uint64_t),
    .close = libuv_loop_close,
    .set_times = libuv_set_times,
    .init = touch,
    .start = touch,
    .refresh = touch,
    .stop = touch,
    .stop_start = touch,
    .advance = nothing,
    .iterate = nothing,
};

const struct rival rival_floor = {"floor by call", TRAIT_SERVER,
                                  libuv_loop_open, &operations};
