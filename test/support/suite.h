/* SPDX-License-Identifier: MIT */

/* The end of each test program's main. */

#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdlib.h>

static inline int
run_suite(Suite *suite)
{
  SRunner *runner = srunner_create(suite);
  int failed;

  srunner_run_all(runner, CK_ENV);
  failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif /* SUITE_H */
