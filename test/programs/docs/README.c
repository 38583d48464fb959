/* SPDX-License-Identifier: MIT */

/* Where the fragment of README.md belongs. */

#include <uvwheel.h>

struct connection {
  uvwheel_timer_t idle;
};

void fragment(uv_loop_t *loop, struct connection *connection,
              uvwheel_timer_cb on_idle);

void fragment(uv_loop_t *loop, struct connection *connection,
              uvwheel_timer_cb on_idle) {
  uvwheel_t wheel;

  uvwheel_init(loop, &wheel, NULL);
#include "README-1.c"
}
