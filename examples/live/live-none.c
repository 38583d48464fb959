/* SPDX-License-Identifier: MIT */

/* The live page where there is no libmicrohttpd: there is none. */

#include <stddef.h>

#include "../common/cli.h"
#include "live.h"

int
live_start(const live_options_t *options, live_t **live)
{
  (void)options;
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
