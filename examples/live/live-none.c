/* SPDX-License-Identifier: MIT */

/* The live page where there is no libmicrohttpd: there is none. */

#include <stddef.h>

#include "../common/cli.h"
#include "live.h"

int
live_start(uvwheel_t *wheel, const server_options_t *options,
           uint64_t descriptor_limit, const live_wheel_t *shown,
           size_t shown_count, live_t **live)
{
  (void)wheel, (void)options, (void)descriptor_limit;
  (void)shown, (void)shown_count;
  *live = NULL;
  complain("built without libmicrohttpd: --http is not available");
  return UV_ENOTSUP;
}

void
live_stop(live_t *live)
{
  (void)live;
}

void
live_free(live_t *live)
{
  (void)live;
}
