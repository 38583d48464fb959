/* SPDX-License-Identifier: MIT */

/* The clock of all event loops of this program.
 *
 * It is virtual: it stands still until the benchmark moves it, and a loop that
 * would sleep moves it on and returns at once. So a minute of a server takes
 * only the CPU time of its timers and polls. The functions by which the event
 * libraries read the time and sleep are defined here, in the executable, whose
 * symbols win over those of the C library.
 *
 * CPU time and real time are read by system calls that bypass all this. */

#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>

void clock_move_ms(uint64_t step_ms);

/* CPU time of this process. */
uint64_t clock_cpu_ns(void);

/* Real time. */
uint64_t clock_real_ns(void);

#endif /* BENCH_CLOCK_H */
