/* SPDX-License-Identifier: MIT */

/* How to call libuv's own functions, and whether this libuv is known. */

#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl*) */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "try.h"

/* ---- The real functions ------------------------------------------------- */

/* The function that the program would have called without this library. */
static void *find_real(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);

  if (found == NULL) {
    (void)fprintf(stderr, "uvwheel-try: this libuv has no %s\n", name);
    _Exit(EXIT_FAILURE);
  }
  return found;
}

/* Each is looked up at its first call. Several threads may do so at the same
 * time: they find the same. */
#define REAL(RETURN, type, name, parameters, arguments) \
  type real_##name parameters {                         \
    typedef type function_t parameters;                 \
    static _Atomic(function_t *) known;                 \
    function_t *function = atomic_load(&known);         \
                                                        \
    if (function == NULL) {                             \
      void *found = find_real(#name);                   \
      memcpy(&function, &found, sizeof function);       \
      atomic_store(&known, function);                   \
    }                                                   \
    RETURN function arguments;                          \
  }

REAL(return, int, uv_timer_init, (uv_loop_t * loop, uv_timer_t *handle),
           (loop, handle))
REAL(return, int, uv_timer_start,
           (uv_timer_t * handle, uv_timer_cb cb, uint64_t timeout,
            uint64_t repeat),
           (handle, cb, timeout, repeat))
REAL(return, int, uv_timer_stop, (uv_timer_t * handle), (handle))
REAL(return, int, uv_timer_again, (uv_timer_t * handle), (handle))
REAL(, void, uv_timer_set_repeat, (uv_timer_t * handle, uint64_t repeat),
     (handle, repeat))
REAL(, void, uv_close, (uv_handle_t * handle, uv_close_cb cb), (handle, cb))
REAL(, void, uv_walk, (uv_loop_t * loop, uv_walk_cb cb, void *arg),
     (loop, cb, arg))
REAL(return, int, uv_loop_init, (uv_loop_t * loop), (loop))
REAL(return, int, uv_loop_close, (uv_loop_t * loop), (loop))

/* ---- Is it known? ------------------------------------------------------- */

void expect_known_libuv(void) {
  if (uv_version() >> 16 == UV_VERSION_MAJOR &&
      uv_handle_size(UV_TIMER) == sizeof(uv_timer_t) &&
      uv_loop_size() == sizeof(uv_loop_t))
    return;
  (void)fprintf(stderr,
                "uvwheel-try: libuv %s lays out its handles unlike libuv "
                "%d.%d.%d, for which this was built\n",
                uv_version_string(), UV_VERSION_MAJOR, UV_VERSION_MINOR,
                UV_VERSION_PATCH);
  _Exit(EXIT_FAILURE);
}
