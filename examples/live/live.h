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
 * leave. It may take one of the descriptors that a server keeps back: when
 * there are no others, somebody wants to see why. */

#ifndef EXAMPLES_LIVE_H
#define EXAMPLES_LIVE_H

#include <stdint.h>

#include <uvwheel.h>

#include "../common/server.h"
#include "live-figures.h"

#define LIVE_MAX_CONNECTIONS 160
#define LIVE_PATIENCE_MS 5000
#define LIVE_MAX_WHEELS 64

typedef struct live_s live_t;

typedef struct page_s {
  uvwheel_t wheel; /* times its connections: if that were one of those shown,
                      max_timers and uvwheel_fire_soonest would count them */
  live_t *live;    /* NULL: there is none */
} page_t;

/* Starts to serve on the loop where --http says, and tells it; before the loops
 * of the shown wheels run, unless it is the same one. Begins with a page that
 * is zeroed. The options have to stay. On failure it complains and returns a
 * UV_E* code; page_stop and page_free have to follow all the same. */
int page_start(page_t *page, uv_loop_t *loop, const server_options_t *options,
               const live_wheel_t *shown, size_t shown_count);

/* Closes all its handles, if it was started. */
void page_stop(page_t *page);

/* After all these loops are closed. */
void page_free(page_t *page);

/* live.html with its style and script, as live-embed.py makes it. */
extern const unsigned char live_page[];
extern const size_t live_page_size;

#endif /* EXAMPLES_LIVE_H */
