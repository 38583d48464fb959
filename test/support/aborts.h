/* SPDX-License-Identifier: MIT */

/* Misuse that ends the program, in a build with checks. */

#ifndef ABORTS_H
#define ABORTS_H

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a child process: does it with stderr in the pipe. */
static inline void misuse_in_child(void (*misuse)(void), int fd) {
  const struct rlimit none = {0, 0}, seconds = {5, 5};

  setrlimit(RLIMIT_CORE, &none);
  setrlimit(RLIMIT_CPU, &seconds); /* what is overwritten may be a circle */
  dup2(fd, STDERR_FILENO);
  misuse();
  _exit(EXIT_SUCCESS);
}

/* The misuse aborts with one line, which begins so and tells the reason. */
static inline void expect_abort_with(const char *begin, void (*misuse)(void),
                                     const char *why) {
  char message[1024] = "";
  ssize_t length = 0, more;
  int fds[2], status;
  pid_t child;

  ck_assert_int_eq(pipe(fds), 0);
  child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0)
    misuse_in_child(misuse, fds[1]);
  close(fds[1]);
  while ((more = read(fds[0], message + length,
                      sizeof message - 1 - (size_t)length)) > 0)
    length += more;
  close(fds[0]);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
                "status %d, said: %s", status, message);
  ck_assert_msg(strstr(message, begin) == message, "said: %s", message);
  ck_assert_msg(strstr(message, why) != NULL, "said: %s", message);
  ck_assert_ptr_eq(strchr(message, '\n'), message + length - 1);
}

#endif /* ABORTS_H */
