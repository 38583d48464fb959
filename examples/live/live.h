/* SPDX-License-Identifier: MIT */

/* Shows running wheels to browsers: GET / is the page (live.html, with live.css
 * and live.js in it), GET /frame?wheel=0 what it draws of that wheel, and asks
 * for four times a second. And to Prometheus: GET /metrics. live-figures.c
 * lists what is reported of a wheel.
 *
 * libmicrohttpd speaks HTTP, on the thread of the loop. Nothing that a peer
 * does can make the server grow: the number of connections is fixed, and
 * newcomers wait in the backlog when all are taken. Each connection has one
 * timer, which ends it if its request does not come or its answer does not
 * leave. */

#ifndef EXAMPLES_LIVE_H
#define EXAMPLES_LIVE_H

#include <stdint.h>

#include <uvwheel.h>

#include "../common/server-options.h"
#include "live-figures.h"

#define LIVE_MAX_CONNECTIONS 160
#define LIVE_PATIENCE_MS 5000
#define LIVE_MAX_WHEELS 64

typedef struct live_s live_t;

/* Starts to serve where --http says, and tells it; before the loops of the
 * shown wheels run, unless it is the same one. `wheel` times the page's
 * connections, and its loop serves them: if it were one of those shown,
 * max_timers and uvwheel_fire_soonest would count them. The options have to
 * stay. On failure it complains and returns a UV_E* code; what *live points to,
 * if anything, is to be stopped and freed all the same. */
int live_start(uvwheel_t *wheel, const server_options_t *options,
               uint64_t descriptor_limit, const live_wheel_t *shown,
               size_t shown_count, live_t **live);

/* Closes all its handles; before the wheel is closed. NULL is legal. */
void live_stop(live_t *live);

/* After all these loops are closed. NULL is legal. */
void live_free(live_t *live);

#endif /* EXAMPLES_LIVE_H */
