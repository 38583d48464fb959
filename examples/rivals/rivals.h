/* SPDX-License-Identifier: MIT */

/* echo.c as it is, but with other timers than a wheel's, so that idle-server
 * can show what each kind costs (--timer). Each is the same source, compiled
 * with other calls in place of uvwheel_timer_*. A server of your own needs
 * nothing of this. */

#ifndef EXAMPLES_RIVALS_H
#define EXAMPLES_RIVALS_H

#include <stddef.h>

#include "../echo.h"

typedef struct rival_s {
  const char *name;
  size_t timer_bytes; /* of one */
  int (*init)(echo_t *echo, uv_loop_t *loop, unsigned family,
              const server_options_t *options);
  uv_connection_cb on_connection;
  void (*stop)(echo_t *echo);
} rival_t;

extern const rival_t rival_uv;     /* one uv_timer_t per connection  */
extern const rival_t rival_chance; /* the same, with a second chance */
extern const rival_t rival_none;   /* no timeouts at all             */

#endif /* EXAMPLES_RIVALS_H */
