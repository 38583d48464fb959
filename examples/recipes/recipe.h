/* SPDX-License-Identifier: MIT */

/* What the recipes share: a loop with a wheel, and how they tell what happens.
 */

#ifndef RECIPE_H
#define RECIPE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <uvwheel.h>

static uv_loop_t loop;
static uvwheel_t wheel;
static uint64_t start_ms;

static inline void begin(const uvwheel_options_t *options) {
  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, options) != 0)
    abort();
  start_ms = uv_now(&loop);
}

/* The loop confirms that nothing was forgotten. */
static inline int end(void) {
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static inline void say(const char *who, const char *what) {
  printf("%5" PRIu64 " ms: %s: %s\n", uv_now(&loop) - start_ms, who, what);
}

/* Zeros. */
static inline void *allocate(size_t size) {
  void *memory = calloc(1, size);

  if (memory == NULL)
    abort();
  return memory;
}

/* Not rand: that gives all processes the same numbers, and a thousand processes
 * on a thousand machines would be in step. */
static inline uint64_t random_below(uint64_t limit) {
  uint64_t random;

  if (uv_random(NULL, NULL, &random, sizeof(random), 0, NULL) != 0)
    abort();
  return random % limit;
}

/* How often something happened within one step of time, and at most. */
typedef struct crowd_s {
  uint64_t step;
  unsigned count, most;
} crowd_t;

static inline void add_to_crowd(crowd_t *crowd, uint64_t step_ms) {
  uint64_t step = (uv_now(&loop) - start_ms) / step_ms;

  crowd->count = crowd->step == step ? crowd->count + 1 : 1;
  crowd->step = step;
  if (crowd->count > crowd->most)
    crowd->most = crowd->count;
}

#endif /* RECIPE_H */
