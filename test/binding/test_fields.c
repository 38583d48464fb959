/* SPDX-License-Identifier: MIT */

/* The private fields of libuv that the library reads: init refuses a libuv that
 * has anything else there. uv_now is defined here, in the executable, and
 * returns what such a libuv would. */

#include "support.h"

static uint64_t units_per_ms = 1;

uint64_t
uv_now(const uv_loop_t *on)
{
  return on->time / units_per_ms;
}

START_TEST(a_libuv_that_keeps_its_time_in_another_unit_is_refused)
{
  static uvwheel_t before;
  static test_timer_t timer;

  memset(&wheel, 0xA5, sizeof wheel);
  before = wheel;
  units_per_ms = 1000;
  ck_assert_int_eq(uvwheel_init(&loop, &wheel, NULL), UV_ENOTSUP);
  units_per_ms = 1;
  ck_assert_mem_eq(&wheel, &before, sizeof wheel);
  ck_assert_uint_eq(handle_count(), 0);
  open_wheel(100, 8);
  test_timer_init(&timer);
  expect_punctual(&timer, 1000);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      TEST(a_libuv_that_keeps_its_time_in_another_unit_is_refused),
  };

  return run_loop_tests("fields", tests, LENGTH(tests));
}
