/* SPDX-License-Identifier: MIT */

/* Lets clang see the sources as Microsoft's compiler would: included before
 * each of them, with --target=x86_64-pc-windows-msvc. The headers are MinGW's,
 * which want GNU C; what follows them has none of it. */

#include <_mingw.h>
/* MinGW forgets "extern" for that compiler. */
#undef __MINGW_IMPORT
#define __MINGW_IMPORT extern __declspec(dllimport)

#include <errno.h>
#include <intrin.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#undef __GNUC__
#undef __SIZEOF_INT128__

/* Old releases have none of these. */
#pragma clang poison __asm__ __attribute__ __extension__ __int128 __typeof__
#pragma clang poison __builtin_clzll __builtin_ctzll __builtin_expect
#pragma clang poison __builtin_prefetch __atomic_load_n
#pragma clang poison _Atomic _Thread_local pthread_key_t
