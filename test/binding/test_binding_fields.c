/* SPDX-License-Identifier: MIT */

/* The private fields of libuv that are read: a libuv that has anything else
 * there is refused. uv_now and uv_is_closing are defined here, in the
 * executable, and return what such a libuv would. */

#include "support.h"

static struct {
  uint64_t ms_per_unit; /* of loop->time */
  unsigned closing;     /* the flags of handles that are closing or closed */
  int usual;            /* what uv_is_closing says of others */
} libuv;

static void
be_as_known(void)
{
  libuv.ms_per_unit = 1;
  libuv.closing = 1 | 2;
  libuv.usual = 0;
}

uint64_t
uv_now(const uv_loop_t *on)
{
  return on->time * libuv.ms_per_unit;
}

int
uv_is_closing(const uv_handle_t *handle)
{
  return handle->flags & libuv.closing ? 1 : libuv.usual;
}

static void
keep_time_in_another_unit(void)
{
  libuv.ms_per_unit = 1000;
}

static void
flag_closing_otherwise(void)
{
  libuv.closing = 4 | 2;
}

static void
flag_closed_otherwise(void)
{
  libuv.closing = 1 | 4;
}

static void
flag_what_is_open(void)
{
  libuv.usual = 1;
}

static void (*const changes[])(void) = {
    keep_time_in_another_unit, flag_closing_otherwise, flag_closed_otherwise,
    flag_what_is_open};

START_TEST(a_libuv_with_other_private_fields_is_refused)
{
  static uvwheel_t before;
  static test_timer_t timer;

  memset(&wheel, 0xA5, sizeof wheel);
  before = wheel;
  changes[_i]();
  ck_assert_int_eq(uvwheel_init(&loop, &wheel, NULL), UV_ENOTSUP);
  be_as_known();
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
  Suite *suite = suite_create("binding: fields");
  TCase *fields = loop_tcase(suite, "fields");

  be_as_known();
  tcase_add_loop_test(fields, a_libuv_with_other_private_fields_is_refused, 0,
                      LENGTH(changes));
  return run_suite(suite);
}
