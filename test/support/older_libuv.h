/* SPDX-License-Identifier: MIT */

/* What the tests call of libuv that its older versions do not have. */

#ifndef OLDER_LIBUV_H
#define OLDER_LIBUV_H

#include <stdint.h>
#include <uv.h>

#if UV_VERSION_HEX < 0x012800 /* 1.40 */
static inline uint64_t uv_timer_get_due_in(const uv_timer_t *timer) {
  uint64_t now_ms = uv_now(timer->loop);

  return timer->timeout > now_ms ? timer->timeout - now_ms : 0;
}
#endif

#endif /* OLDER_LIBUV_H */
