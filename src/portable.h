/* SPDX-License-Identifier: MIT */

/* The compiler builtins that the library uses, and the same in plain C11.
 * -DUVWHEEL_PLAIN_C=1 chooses the latter with any compiler, for tests. */

#ifndef UVWHEEL_PORTABLE_H
#define UVWHEEL_PORTABLE_H

#include <stdint.h>

/* lowest_bit: the position of the lowest bit that is set; not for 0.
 * bit_width: how many bits are needed to write the value down; 0 for 0. */

#if defined(__GNUC__) && !defined(UVWHEEL_PLAIN_C)

#define PREFETCH(address) __builtin_prefetch(address, 1)
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define NOINLINE __attribute__((noinline))
#define CONCEAL(value) __asm__("" : "+r"(value))
#define ADD_OVERFLOWS(a, b, sum) __builtin_add_overflow(a, b, sum)
#define SUBTRACT_OVERFLOWS(a, b, sum) __builtin_sub_overflow(a, b, sum)

static inline unsigned
lowest_bit(uint64_t bits)
{
  return (unsigned)__builtin_ctzll(bits);
}

static inline unsigned
bit_width(uint64_t value)
{
  return value == 0 ? 0 : 64 - (unsigned)__builtin_clzll(value);
}

#else

#define PREFETCH(address) ((void)(address))
#define LIKELY(condition) (condition)
#define UNLIKELY(condition) (condition)
#define NOINLINE
#define CONCEAL(value) ((void)(value))
#define ADD_OVERFLOWS(a, b, sum) ((*(sum) = (a) + (b)) < (b))
#define SUBTRACT_OVERFLOWS(a, b, sum) (*(sum) = (a) - (b), (a) < (b))

static inline unsigned
bit_width(uint64_t value)
{
  unsigned width = 0;

  for (; value != 0; value >>= 1)
    width++;
  return width;
}

static inline unsigned
lowest_bit(uint64_t bits)
{
  return bit_width(bits & (~bits + 1)) - 1;
}

#endif

/* Systems other than glibc refuse to dlopen a library with the initial-exec
 * model, and glibc does when what it keeps for that is used up. */
#if defined(_MSC_VER)
#define THREAD_LOCAL __declspec(thread)
#elif defined(__GLIBC__) && !defined(UVWHEEL_NO_INITIAL_EXEC) && \
    !defined(UVWHEEL_PLAIN_C)
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define THREAD_LOCAL _Thread_local
#endif

/* The reciprocal of a divisor, and the limit below which values can be divided
 * by it. */
#define RECIPROCAL(divisor) (UINT64_MAX / (divisor))
#define RECIPROCAL_LIMIT(divisor) ((UINT64_C(1) << 63) / (divisor))

/* value / divisor. The reciprocal is (2^64 - e) / divisor with an e from 1 to
 * divisor. So the product below is (value + 1) / divisor minus something above
 * zero that, value + 1 being at most 2^64 / divisor, is at most 1 / divisor:
 * its whole part is that of value / divisor. (After Granlund and Montgomery,
 * "Division by invariant integers using multiplication", 1994.) */
static inline uint64_t
divide(uint64_t value, uint64_t divisor, uint64_t reciprocal)
{
#if defined(__SIZEOF_INT128__) && defined(__GNUC__) && !defined(UVWHEEL_PLAIN_C)
  __extension__ typedef unsigned __int128 wide_t;
  (void)divisor;
  return (uint64_t)(((wide_t)(value + 1) * reciprocal) >> 64);
#else
  (void)reciprocal;
  return value / divisor;
#endif
}

#endif /* UVWHEEL_PORTABLE_H */
