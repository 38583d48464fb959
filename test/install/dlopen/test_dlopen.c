/* SPDX-License-Identifier: MIT */

/* The shared library loaded while the program runs, as plugins and other
 * languages do it.
 *
 * usage: test_dlopen LIBRARY FILLER */

#define _GNU_SOURCE

#include <check.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "portable.h"
#include "suite.h"
#include "uvwheel.h"

#define TEXT_OF(macro) #macro
#define EXPANDED(macro) TEXT_OF(macro)

/* More times 8 bytes than the loader keeps */
#define MANY 1000

static const char *library_path, *filler_path;

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

/* A library of its own for the loader, with what the file has in it. */
static void *
load_copy(const char *path)
{
  char buffer[65536], name[32];
  FILE *original = fopen(path, "rb");
  int copy = memfd_create("filler", 0);
  size_t length;

  ck_assert_ptr_nonnull(original);
  ck_assert_int_ge(copy, 0);
  while ((length = fread(buffer, 1, sizeof buffer, original)) > 0)
    ck_assert_int_eq(write(copy, buffer, length), (ssize_t)length);
  (void)fclose(original);
  (void)snprintf(name, sizeof name, "/proc/self/fd/%d", copy);
  /* It stays open, or the next one would have the same name. */
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

START_TEST(a_library_that_is_loaded_late_works)
{
  void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);

  ck_assert_msg(library != NULL, "%s", dlerror());
  use(library);
}
END_TEST

/* jemalloc#937, mimalloc#147: other libraries may have taken all the room for
 * thread-local variables of the initial-exec model. (Where there never is any
 * for late comers, the first filler is refused.) A library that has such a one
 * is then not loaded, and says why; one built without is. */
START_TEST(without_static_tls_initial_exec_alone_is_refused)
{
  bool has_initial_exec = strcmp(EXPANDED(THREAD_LOCAL), "_Thread_local") != 0;
  void *library;
  unsigned count = 0;

  while (load_copy(filler_path) != NULL)
    ck_assert_uint_lt(++count, MANY);
  library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
  if (has_initial_exec) {
    ck_assert_ptr_null(library);
    ck_assert_ptr_nonnull(strstr(dlerror(), "static TLS"));
  } else {
    ck_assert_msg(library != NULL, "%s", dlerror());
    use(library);
  }
}
END_TEST

int
main(int argc, char **argv)
{
  Suite *suite = suite_create("dlopen");
  TCase *tcase = tcase_create("late");

  if (argc != 3)
    return EXIT_FAILURE;
  library_path = argv[1];
  filler_path = argv[2];
  tcase_add_test(tcase, a_library_that_is_loaded_late_works);
  tcase_add_test(tcase, without_static_tls_initial_exec_alone_is_refused);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
