/* SPDX-License-Identifier: MIT */

/* Misuse that ends the program, in a build with checks. */

#ifndef ABORTS_H
#define ABORTS_H

/* The misuse aborts with one line, which begins so and tells the reason. */
void expect_abort_with(const char *begin, void (*misuse)(void),
                       const char *why);

#endif /* ABORTS_H */
