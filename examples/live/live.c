/* SPDX-License-Identifier: MIT */

#include "live.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <microhttpd.h>
#include <strings.h>
#include <sys/socket.h>

#include "../common/cli.h"
#include "live-wheels.h"

#define BACKLOG 128

typedef struct peer_s {
  live_t *live;
  struct MHD_Connection *connection; /* NULL: free */
  uvwheel_timer_t patience;
} peer_t;

struct live_s {
  uvwheel_t *wheel; /* of the page */
  const server_options_t *options;
  uv_tcp_t listener; /* until the daemon has its socket */
  struct MHD_Daemon *daemon;
  uv_poll_t poll;       /* of the daemon's own epoll */
  uv_idle_t unfinished; /* runs while the daemon has more to do at once */
  uv_timer_t judge_timer;
  uint64_t started_ms;
  live_wheels_t wheels;
  int is_place_free; /* one has become free in this run of the daemon */
  peer_t peers[LIVE_MAX_CONNECTIONS];
  char address[ADDRESS_TEXT_SIZE]; /* where it listens */
  int is_on_loopback;
};

/* ---- The daemon on the loop --------------------------------------------- */

static void run_daemon(live_t *live);

static void on_unfinished(uv_idle_t *idle) {
  run_daemon(idle->data);
}

static void on_poll(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  run_daemon(poll->data);
}

/* The daemon accepts the next peer that waits for a place when it is run. It
 * has no timeouts of its own: if it names one, that is 0. */
static void run_daemon(live_t *live) {
  MHD_UNSIGNED_LONG_LONG timeout_ms;

  live->is_place_free = 0;
  MHD_run(live->daemon);
  if (live->is_place_free ||
      MHD_get_timeout(live->daemon, &timeout_ms) == MHD_YES)
    uv_idle_start(&live->unfinished, on_unfinished);
  else
    uv_idle_stop(&live->unfinished);
}

/* ---- Peers -------------------------------------------------------------- */

static int socket_of(const peer_t *peer) {
  return MHD_get_connection_info(peer->connection,
                                 MHD_CONNECTION_INFO_CONNECTION_FD)
      ->connect_fd;
}

/* The daemon finds the connection ended, and closes it. */
static void end_connection(const peer_t *peer) {
  shutdown(socket_of(peer), SHUT_RDWR);
}

static void on_patience_ended(uvwheel_timer_t *timer) {
  end_connection(timer->data);
}

/* A timeout of the daemon's would begin anew with each byte, and does not know
 * of stalls: this one is never refreshed, and a stall puts it back. */
static void welcome(live_t *live, peer_t *peer,
                    struct MHD_Connection *connection) {
  *peer = (peer_t){.live = live, .connection = connection};
  uvwheel_timer_init(live->wheel, &peer->patience);
  peer->patience.data = peer;
  if (uvwheel_timer_expect(&peer->patience, on_patience_ended,
                           LIVE_PATIENCE_MS) != 0)
    end_connection(peer);
}

static void on_connection(void *data, struct MHD_Connection *connection,
                          void **context,
                          enum MHD_ConnectionNotificationCode code) {
  live_t *live = data;
  peer_t *peer = *context;

  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    for (peer = live->peers; peer->connection != NULL; peer++)
      ; /* no more than LIVE_MAX_CONNECTIONS are open */
    *context = peer;
    welcome(live, peer, connection);
    return;
  }
  uvwheel_timer_close(&peer->patience);
  live->is_place_free = 1;
  peer->connection = NULL;
}

/* ---- Answers ------------------------------------------------------------ */

static int add_fields(struct MHD_Response *response, unsigned status,
                      const char *type) {
  return MHD_add_response_header(response, "Content-Type", type) == MHD_YES &&
         MHD_add_response_header(response, "Connection", "close") == MHD_YES &&
         MHD_add_response_header(response, "Cache-Control", "no-store") ==
             MHD_YES &&
         (status != MHD_HTTP_METHOD_NOT_ALLOWED ||
          MHD_add_response_header(response, "Allow", "GET, HEAD") == MHD_YES);
}

/* Consumes the response. Without memory for it the connection is closed, as it
 * is after each answer. */
static enum MHD_Result answer(const peer_t *peer, unsigned status,
                              const char *type, struct MHD_Response *response) {
  enum MHD_Result result = MHD_NO;

  if (response == NULL)
    return MHD_NO;
  if (add_fields(response, status, type))
    result = MHD_queue_response(peer->connection, status, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result answer_text(const peer_t *peer, unsigned status,
                                   const char *type, const void *text,
                                   size_t length,
                                   enum MHD_ResponseMemoryMode mode) {
  return answer(
      peer, status, type,
      MHD_create_response_from_buffer(length, (void *)(uintptr_t)text, mode));
}

static enum MHD_Result answer_status(const peer_t *peer, unsigned status) {
  const char *name = MHD_get_reason_phrase_for(status);

  return answer_text(peer, status, "text/plain", name, strlen(name),
                     MHD_RESPMEM_PERSISTENT);
}

/* ---- Reports ------------------------------------------------------------ */

/* A frame for the page, or metrics if no wheel is chosen. A wheel of this loop
 * is read now. One of another loop has answered within the last second, unless
 * that loop is blocked. */
static void write_report(FILE *stream, live_t *live, const char *wheel) {
  uint64_t now_ms = uv_now(live->judge_timer.loop);
  const live_facts_t facts = {
      .timeout_ms = live->options->timeout_ms,
      .page_ms = now_ms,
      .uptime_ms = now_ms - live->started_ms,
  };

  live_wheels_ask(&live->wheels, wheel != NULL);
  live_wheels_collect(&live->wheels);
  if (wheel != NULL)
    live_frame_write(stream, &live->wheels, strtoul(wheel, NULL, 10), &facts);
  else
    live_metrics_write(stream, &live->wheels);
}

static enum MHD_Result answer_report(const peer_t *peer, const char *type,
                                     const char *wheel) {
  char *text = NULL;
  size_t length;
  FILE *stream = open_memstream(&text, &length);

  if (stream == NULL)
    return MHD_NO;
  write_report(stream, peer->live, wheel);
  if (fclose(stream) != 0) {
    free(text);
    return MHD_NO;
  }
  return answer_text(peer, MHD_HTTP_OK, type, text, length,
                     MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result answer_frame(const peer_t *peer) {
  const char *wheel = MHD_lookup_connection_value(
      peer->connection, MHD_GET_ARGUMENT_KIND, "wheel");

  if (wheel == NULL)
    wheel = "0";
  if (strtoul(wheel, NULL, 10) >= peer->live->wheels.count)
    return answer_status(peer, MHD_HTTP_NOT_FOUND);
  return answer_report(peer, "application/json", wheel);
}

static void on_judge_timer(uv_timer_t *timer) {
  live_t *live = timer->data;

  live_wheels_ask(&live->wheels, false);
  live_wheels_collect(&live->wheels);
  live_wheels_judge(&live->wheels, uv_now(timer->loop));
}

/* ---- Requests ----------------------------------------------------------- */

static int names_host(const char *field, const char *host) {
  size_t length = strlen(host);

  return strncasecmp(field, host, length) == 0 &&
         (field[length] == '\0' || field[length] == ':');
}

/* A web page anywhere can have its own host name resolve to 127.0.0.1, and its
 * visitor's browser then takes what a server there answers for that page's own
 * (DNS rebinding). But the browser sends the name that it used: on loopback
 * only the names of this machine are served. Where other machines can connect
 * anyway, any name is served. */
static int is_host_allowed(const peer_t *peer) {
  const char *host =
      MHD_lookup_connection_value(peer->connection, MHD_HEADER_KIND, "Host");

  if (!peer->live->is_on_loopback)
    return 1;
  return host != NULL &&
         (names_host(host, "localhost") || names_host(host, "127.0.0.1") ||
          names_host(host, "[::1]") ||
          strcmp(host, peer->live->address) == 0); /* 127.0.0.2 */
}

/* The body of a request is not waited for: the connection is closed after the
 * answer. */
static enum MHD_Result on_request(void *data, struct MHD_Connection *connection,
                                  const char *path, const char *method,
                                  const char *version, const char *upload,
                                  size_t *upload_size, void **context) {
  peer_t *peer =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
          ->socket_context;

  (void)data, (void)version, (void)upload;
  (void)upload_size, (void)context;
  if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
    return answer_status(peer, MHD_HTTP_METHOD_NOT_ALLOWED);
  if (!is_host_allowed(peer))
    return answer_status(peer, MHD_HTTP_FORBIDDEN);
  if (strcmp(path, "/") == 0)
    return answer_text(peer, MHD_HTTP_OK, "text/html; charset=utf-8", live_page,
                       live_page_size, MHD_RESPMEM_PERSISTENT);
  if (strcmp(path, "/frame") == 0)
    return answer_frame(peer);
  if (strcmp(path, "/metrics") == 0)
    return answer_report(peer, LIVE_PROMETHEUS_TYPE, NULL);
  return answer_status(peer, MHD_HTTP_NOT_FOUND);
}

/* ---- Start and stop ----------------------------------------------------- */

static int is_loopback(const struct sockaddr_storage *address) {
  const struct sockaddr_in *ip4 = (const struct sockaddr_in *)address;
  const struct sockaddr_in6 *ip6 = (const struct sockaddr_in6 *)address;

  if (address->ss_family == AF_INET)
    return ntohl(ip4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&ip6->sin6_addr);
}

/* Returns the listening socket's descriptor for the daemon, which will own it,
 * or -1. Given none the daemon would open one itself, for all the world. */
static int copy_listener(live_t *live) {
  struct sockaddr_storage address;
  int size = sizeof(address);
  uv_os_fd_t descriptor = -1;

  uv_tcp_getsockname(&live->listener, (struct sockaddr *)&address, &size);
  live->is_on_loopback = is_loopback(&address);
  uv_fileno((uv_handle_t *)&live->listener, &descriptor);
  return fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

static int start_daemon(live_t *live, uv_loop_t *loop) {
  int descriptor = copy_listener(live);

  if (descriptor == -1)
    return UV_EMFILE;
  live->daemon = MHD_start_daemon(
      MHD_USE_EPOLL, 0, NULL, NULL, on_request, live, MHD_OPTION_LISTEN_SOCKET,
      descriptor, MHD_OPTION_NOTIFY_CONNECTION, on_connection, live,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)LIVE_MAX_CONNECTIONS,
      MHD_OPTION_END);
  if (live->daemon == NULL)
    return UV_ENOMEM;
  int error = uv_poll_init(
      loop, &live->poll,
      MHD_get_daemon_info(live->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd);
  if (error == 0)
    return uv_poll_start(&live->poll, UV_READABLE, on_poll);
  MHD_stop_daemon(live->daemon);
  live->daemon = NULL;
  return error;
}

/* Complains, if it fails. */
static int serve(live_t *live, uv_loop_t *loop) {
  uv_tcp_init(loop, &live->listener);
  int error = listen_at(&live->listener, live->options->http_host,
                        (uint16_t)live->options->http_port, BACKLOG, NULL,
                        live->address);
  if (error == 0 && (error = start_daemon(live, loop)) != 0)
    complain("cannot serve http://%s/: %s", live->address, uv_strerror(error));
  uv_close((uv_handle_t *)&live->listener, NULL);
  return error;
}

static live_t *open_live(page_t *page, uv_loop_t *loop,
                         const server_options_t *options) {
  live_t *live = calloc(1, sizeof(*live));

  if (live == NULL)
    return NULL;
  live->wheel = &page->wheel;
  live->options = options;
  live->started_ms = uv_now(loop);
  uv_timer_init(loop, &live->judge_timer);
  uv_idle_init(loop, &live->unfinished);
  live->judge_timer.data = live->unfinished.data = live->poll.data = live;
  return live;
}

int page_start(page_t *page, uv_loop_t *loop, const server_options_t *options,
               const live_wheel_t *shown, size_t shown_count) {
  int error = uvwheel_init(loop, &page->wheel, NULL);
  live_t *live = page->live = open_live(page, loop, options);

  if (live == NULL)
    error = UV_ENOMEM;
  if (error == 0)
    error = live_wheels_init(&live->wheels, shown, shown_count, loop);
  if (error != 0)
    complain("cannot show the wheels: %s", uv_strerror(error));
  else
    error = serve(live, loop);
  if (error != 0)
    return error;
  uv_timer_start(&live->judge_timer, on_judge_timer, 0, LIVE_JUDGE_MS);
  run_daemon(live);
  (void)log_line("live page: http://%s/\n", live->address);
  return 0;
}

void page_stop(page_t *page) {
  live_t *live = page->live;

  if (live != NULL && !uv_is_closing((uv_handle_t *)&live->judge_timer)) {
    uv_close((uv_handle_t *)&live->judge_timer, NULL);
    uv_close((uv_handle_t *)&live->unfinished, NULL);
    if (live->daemon != NULL) {
      uv_close((uv_handle_t *)&live->poll, NULL);
      MHD_stop_daemon(live->daemon);
    }
  }
  uvwheel_close(&page->wheel, NULL);
}

void page_free(page_t *page) {
  if (page->live != NULL)
    live_wheels_free(&page->live->wheels);
  free(page->live);
}
