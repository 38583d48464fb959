/* SPDX-License-Identifier: MIT */

#include "live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cli.h"
#include "http-server.h"
#include "live-metrics.h"
#include "live-page.h"
#include "live-picture.h"

struct live_s {
  live_options_t options;
  http_server_t http;
  uv_timer_t frame_timer; /* runs while somebody is looking */
  live_picture_t picture;
  char fields[1024];
};

#define EVENT_BEGIN "data: "
#define EVENT_END "\n\n"

/* ---- Frames ------------------------------------------------------------- */

/* One frame is made for all viewers. Without memory for it they miss it. */
static void
send_frame(live_t *live)
{
  http_chunk_t *chunk =
      http_chunk_new(LIVE_MAX_TEXT + sizeof(EVENT_BEGIN) + sizeof(EVENT_END));
  live_facts_t facts = {
      .timeout_ms = live->options.timeout_ms,
      .refreshed = *live->options.refreshes,
      .viewers = live->http.streams,
  };

  if (chunk == NULL)
    return;
  char *end = stpcpy(chunk->bytes, EVENT_BEGIN);
  end += live_picture_write(&live->picture, &facts, end);
  end = stpcpy(end, EVENT_END);
  chunk->length = (size_t)(end - chunk->bytes);
  http_send_to_streams(&live->http, chunk);
  http_chunk_release(chunk);
}

static void
on_frame_timer(uv_timer_t *timer)
{
  live_t *live = timer->data;

  if (live->http.streams == 0) {
    uv_timer_stop(timer);
    return;
  }
  live_picture_count(&live->picture);
  send_frame(live);
}

/* ---- Requests ----------------------------------------------------------- */

static void
begin_stream(live_t *live, http_connection_t *connection)
{
  http_stream(connection, "text/event-stream");
  if (live->http.streams == 0 ||
      uv_is_active((uv_handle_t *)&live->frame_timer))
    return;
  live_picture_begin(&live->picture, live->options.wheel);
  uv_timer_start(&live->frame_timer, on_frame_timer, 0, LIVE_INTERVAL_MS);
}

static void
answer_metrics(const live_t *live, http_connection_t *connection)
{
  http_chunk_t *chunk = http_chunk_new(LIVE_MAX_METRICS);
  uvwheel_stats_t stats;

  if (chunk == NULL) {
    http_answer_status(connection, HTTP_STATUS_SERVICE_UNAVAILABLE);
    return;
  }
  uvwheel_get_stats(live->options.wheel, &stats);
  chunk->length = live_metrics_write(&stats, chunk->bytes);
  http_answer_chunk(connection, LIVE_METRICS_TYPE, chunk);
  http_chunk_release(chunk);
}

static void
on_request(http_connection_t *connection)
{
  http_server_t *http = connection->tcp.data;

  if (http_request_is_for(&connection->request, "/"))
    http_answer(connection, "text/html; charset=utf-8", (const char *)live_page,
                live_page_size);
  else if (http_request_is_for(&connection->request, "/events"))
    begin_stream(http->data, connection);
  else if (http_request_is_for(&connection->request, "/metrics"))
    answer_metrics(http->data, connection);
  else
    http_answer_status(connection, HTTP_STATUS_NOT_FOUND);
}

/* ---- Start and stop ----------------------------------------------------- */

/* The page may run its own script and style, and ask its own server for
 * events. Nothing else, and nobody may frame it or read it from elsewhere. */
static void
write_fields(live_t *live)
{
  snprintf(live->fields, sizeof(live->fields),
           "Cache-Control: no-store\r\n"
           "Content-Security-Policy: default-src 'none'; script-src %s; "
           "style-src %s; img-src data:; connect-src 'self'; "
           "base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
           "Cross-Origin-Resource-Policy: same-origin\r\n"
           "Referrer-Policy: no-referrer\r\n"
           "X-Content-Type-Options: nosniff\r\n",
           live_page_script, live_page_style);
}

int
live_start(const live_options_t *options, live_t **started)
{
  uv_loop_t *loop = uvwheel_get_loop(options->wheel);
  live_t *live = calloc(1, sizeof(*live));

  *started = live;
  if (live == NULL) {
    complain("out of memory");
    return UV_ENOMEM;
  }
  live->options = *options;
  write_fields(live);
  live->http.loop = loop;
  live->http.wheel = options->wheel;
  live->http.on_request = on_request;
  live->http.fields = live->fields;
  live->http.descriptor_limit = options->descriptor_limit;
  live->http.data = live;
  uv_timer_init(loop, &live->frame_timer);
  live->frame_timer.data = live;
  int error = http_server_start(&live->http, options->host, options->port);
  if (error == 0)
    announce("live page: http://%s/\n", live->http.address);
  return error;
}

void
live_stop(live_t *live)
{
  if (live == NULL || uv_is_closing((uv_handle_t *)&live->frame_timer))
    return;
  uv_close((uv_handle_t *)&live->frame_timer, NULL);
  http_server_stop(&live->http);
}

void
live_free(live_t *live)
{
  free(live);
}
