/* SPDX-License-Identifier: MIT */

/* The shared library loaded while the program runs, as plugins and other
 * languages do it: a timer of it, on a loop of the libuv that came with it,
 * fires.
 *
 * usage: test_dlopen LIBRARY */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "uvwheel.h"

static unsigned fired;

static void on_fired(uvwheel_timer_t *timer) {
  (void)timer;
  fired++;
}

/* Puts the address of a function of the library into the pointer that is to
 * call it: in ISO C neither converts to the other. */
#define FUNCTION(name)                             \
  __typeof__(name) *its_##name;                    \
  void *address_of_##name = dlsym(library, #name); \
  memcpy(&its_##name, &address_of_##name, sizeof its_##name)

int main(int argc, char **argv) {
  uvwheel_t wheel;
  uvwheel_timer_t timer;
  uv_loop_t *loop;
  void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  FUNCTION(uv_default_loop);
  FUNCTION(uv_run);
  FUNCTION(uv_loop_close);
  FUNCTION(uvwheel_init);
  FUNCTION(uvwheel_timer_init);
  FUNCTION(uvwheel_timer_start);
  FUNCTION(uvwheel_close);
  loop = its_uv_default_loop();
  if (its_uvwheel_init(loop, &wheel, NULL) != 0 ||
      its_uvwheel_timer_init(&wheel, &timer) != 0 ||
      its_uvwheel_timer_start(&timer, on_fired, 1, 0) != 0)
    return 1;
  its_uv_run(loop, UV_RUN_DEFAULT);
  its_uvwheel_close(&wheel, NULL);
  its_uv_run(loop, UV_RUN_DEFAULT);
  return fired != 1 || its_uv_loop_close(loop) != 0;
}
