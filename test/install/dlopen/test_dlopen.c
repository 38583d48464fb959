/* SPDX-License-Identifier: MIT */

/* The shared library loaded while the program runs, as plugins and other
 * languages do it.
 *
 * usage: test_dlopen LIBRARY */

#include <check.h>
#include <dlfcn.h>
#include <string.h>

#include "suite.h"
#include "uvwheel.h"

static const char *library_path;

static void
on_fired(uvwheel_timer_t *timer)
{
  ++*(unsigned *)timer->data;
}

/* Puts the address of a function of the library into the pointer that is to
 * call it: in ISO C neither converts to the other. */
static void
look_up(void *library, const char *name, void *pointer)
{
  void *address = dlsym(library, name);

  ck_assert_msg(address != NULL, "%s", dlerror());
  memcpy(pointer, &address, sizeof address);
}

#define FUNCTION(library, name) \
  __typeof__(name) *its_##name; \
  look_up(library, #name, &its_##name)

/* A timer of the library that was loaded, on a loop of the libuv that came with
 * it, fires. */
static void
use(void *library)
{
  static uvwheel_t wheel;
  uvwheel_timer_t timer;
  unsigned fired = 0;
  uv_loop_t *loop;

  FUNCTION(library, uv_default_loop);
  FUNCTION(library, uv_run);
  FUNCTION(library, uv_loop_close);
  FUNCTION(library, uvwheel_init);
  FUNCTION(library, uvwheel_timer_init);
  FUNCTION(library, uvwheel_timer_start);
  FUNCTION(library, uvwheel_close);
  loop = its_uv_default_loop();
  ck_assert_int_eq(its_uvwheel_init(loop, &wheel, NULL), 0);
  ck_assert_int_eq(its_uvwheel_timer_init(&wheel, &timer), 0);
  timer.data = &fired;
  ck_assert_int_eq(its_uvwheel_timer_start(&timer, on_fired, 1, 0), 0);
  ck_assert_int_eq(its_uv_run(loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(fired, 1);
  its_uvwheel_close(&wheel, NULL);
  ck_assert_int_eq(its_uv_run(loop, UV_RUN_DEFAULT), 0);
  ck_assert_int_eq(its_uv_loop_close(loop), 0);
}

START_TEST(a_library_that_is_loaded_late_works)
{
  void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);

  ck_assert_msg(library != NULL, "%s", dlerror());
  use(library);
}
END_TEST

int
main(int argc, char **argv)
{
  const loop_test_t tests[] = {TEST(a_library_that_is_loaded_late_works)};

  if (argc != 2)
    return EXIT_FAILURE;
  library_path = argv[1];
  return run_tests("dlopen", NULL, NULL, tests, LENGTH(tests));
}
