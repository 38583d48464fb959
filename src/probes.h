/* SPDX-License-Identifier: MIT */

/* Static tracepoints of a -Dprobes=enabled build. Each is a nop, which tools
 * such as bpftrace turn into a call while they trace; docs/probes.md has
 * examples. In other builds they are nothing. */

#ifndef UVWHEEL_PROBES_H
#define UVWHEEL_PROBES_H

#ifdef UVWHEEL_PROBES

#include <sys/sdt.h>

/* A call to start a timer, with its timeout and repeat in ms. */
#define PROBE_START(timer, timeout, repeat) \
  DTRACE_PROBE3(uvwheel, start, timer, timeout, repeat)

/* A call to stop a timer. */
#define PROBE_STOP(timer) DTRACE_PROBE1(uvwheel, stop, timer)

/* A timer's callback is about to run, so many ms after its tick; 0 also if it
 * is one of uvwheel_fire_soonest. */
#define PROBE_FIRE(timer, late_ms) DTRACE_PROBE2(uvwheel, fire, timer, late_ms)

/* A turn of a wheel is over: timers fired, and the time it took. */
#define PROBE_TURN(wheel, timers, took_us) \
  DTRACE_PROBE3(uvwheel, turn, wheel, timers, took_us)

/* The loop was deaf for so many ms, forgiven or not. */
#define PROBE_STALL(wheel, deaf_ms) \
  DTRACE_PROBE2(uvwheel, stall, wheel, deaf_ms)

#else

#define PROBE_START(timer, timeout, repeat) ((void)0)
#define PROBE_STOP(timer) ((void)0)
#define PROBE_FIRE(timer, late_ms) ((void)0)
#define PROBE_TURN(wheel, timers, took_us) ((void)(timers))
#define PROBE_STALL(wheel, deaf_ms) ((void)0)

#endif

#endif /* UVWHEEL_PROBES_H */
