/* SPDX-License-Identifier: MIT */

/* Where the fragments of README.md belong. */

#include <uvwheel.h>

#include "README-1.c"

void fragment(uv_loop_t *loop, struct connection *connection,
              uvwheel_timer_cb on_idle);

void
fragment(uv_loop_t *loop, struct connection *connection,
         uvwheel_timer_cb on_idle)
{
  uvwheel_t wheel;

#include "README-2.c"
}
