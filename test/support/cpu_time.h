/* SPDX-License-Identifier: MIT */

#ifndef CPU_TIME_H
#define CPU_TIME_H

#include <stddef.h>

#ifndef _WIN32
#include <sys/time.h>
#endif

/* What takes a minute of CPU time outside the kernel from here on is ended by
 * SIGVTALRM: it hangs, however busy the machine is. */
static inline void limit_cpu_time(void) {
#ifndef _WIN32
  const struct itimerval minute = {.it_value = {.tv_sec = 60}};

  (void)setitimer(ITIMER_VIRTUAL, &minute, NULL);
#endif
}

#endif /* CPU_TIME_H */
