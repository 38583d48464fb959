/* SPDX-License-Identifier: MIT */

/* How a test program names its tests and runs them. */

#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stddef.h>
#include <stdlib.h>

#include "cpu_time.h"
#include "length.h"

typedef struct loop_test_s {
  const TTest *test;
  int first, end; /* it runs with each _i from the one to before the other */
} loop_test_t;

#define TEST(name) \
  { name, 0, 1 }
#define EACH(name, cases) \
  { name, 0, (int)LENGTH(cases) }

/* Each is a case of its own, which CK_RUN_CASE can name. */
static inline int run_tests(const char *name, SFun setup, SFun teardown,
                            const loop_test_t *tests, size_t count) {
  Suite *suite = suite_create(name);
  SRunner *runner = srunner_create(suite);
  const loop_test_t *test;
  int failed;

  for (test = tests; test < tests + count; test++) {
    TCase *tcase = tcase_create(test->test->name);
    tcase_add_checked_fixture(tcase, limit_cpu_time, NULL);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test->test, test->first, test->end);
    suite_add_tcase(suite, tcase);
  }
  srunner_run_all(runner, CK_ENV);
  failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif /* SUITE_H */
