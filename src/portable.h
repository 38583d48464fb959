/* SPDX-License-Identifier: MIT */

/* Compiler builtins, and substitutes in plain C. -DUVWHEEL_PLAIN_C=1 chooses
 * the latter, for tests. */

#ifndef UVWHEEL_PORTABLE_H
#define UVWHEEL_PORTABLE_H

#include <stdint.h>

/* LOAD_STATE, STORE_STATE: an atomic load and store of a wheel's pointer.
 * Without builtins (MSVC) it is a volatile one. lowest_bit: the position of the
 * lowest bit that is set; not for 0. bit_width: of 5 it is 3, of 0 0. */

#if defined(__GNUC__) && !defined(UVWHEEL_PLAIN_C)

#define PREFETCH(address) __builtin_prefetch(address, 1)
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define NOINLINE __attribute__((noinline))
#define CONCEAL(value) __asm__("" : "+r"(value))
#define LOAD_STATE(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
#define STORE_STATE(place, value) \
  __atomic_store_n(place, value, __ATOMIC_RELEASE)
#ifdef __SIZEOF_INT128__
#define HAS_WIDE
__extension__ typedef unsigned __int128 wide_t;
#endif

static inline unsigned lowest_bit(uint64_t bits) {
  return (unsigned)__builtin_ctzll(bits);
}

static inline unsigned bit_width(uint64_t value) {
  return value == 0 ? 0 : 64 - (unsigned)__builtin_clzll(value);
}

#else

#define PREFETCH(address) ((void)(address))
#define LIKELY(condition) (condition)
#define UNLIKELY(condition) (condition)
#define NOINLINE
#define CONCEAL(value) ((void)(value))
#define LOAD_STATE(place) (*(struct uvwheel_state_s *volatile *)(place))
#define STORE_STATE(place, value) \
  (*(struct uvwheel_state_s *volatile *)(place) = (value))

static inline unsigned bit_width(uint64_t value) {
  unsigned width = 0;

  for (; value != 0; value >>= 1)
    width++;
  return width;
}

static inline unsigned lowest_bit(uint64_t bits) {
  return bit_width(bits & (~bits + 1)) - 1;
}

#endif

static inline uint64_t min_of(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static inline uint64_t max_of(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* a - b, but not less than 0. */
static inline uint64_t excess(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

/* musl refuses to dlopen a library with the initial-exec model. glibc refuses
 * it when it has no room left for such variables. */
#if defined(_MSC_VER)
#define THREAD_LOCAL __declspec(thread)
#elif defined(__GLIBC__) && !defined(UVWHEEL_NO_INITIAL_EXEC) && \
    !defined(UVWHEEL_PLAIN_C)
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define THREAD_LOCAL _Thread_local
#endif

#endif /* UVWHEEL_PORTABLE_H */
