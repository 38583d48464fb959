/* SPDX-License-Identifier: MIT */

/* What a timer adds to each message of an echo server over TCP.
 *
 * Half of the connections belong to a loop without timers, the others to the
 * rival's loop. The peers of either send by turns, a block of messages each, so
 * that whatever else the machine does hits both alike. The difference is the
 * refresh of each message, its share of all that the loop does about timers,
 * and the cache lines that this takes from the server. Only the CPU time of the
 * two loops counts, with the kernel's part of it; the peers are in this
 * process, too. Each connection sends about every 10 s of virtual time.
 */

#include "workloads.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_CONNECTIONS 9500u /* a process may have 20,000 descriptors */
#define INTERVAL_MS 10000u
#define BLOCK 475u /* messages */
#define PAIRS 100u /* of blocks */
#define BYTES 64u

struct connection {
  uv_tcp_t tcp;
  int peer;
  _Alignas(64) char timer[192];
};

struct side {
  uv_loop_t *loop;
  const struct operations *timers;  /* NULL: none */
  uint32_t order[MOST_CONNECTIONS]; /* in which they send: twice each */
  size_t next;
};

static struct connection *connections;
static size_t connection_count;
static struct side sides[2];
static char bytes[BYTES];
static int echoed;

static int no_error(int result) {
  if (result < 0)
    bench_die("a connection failed");
  return result;
}

/* ---- The server ---------------------------------------------------------- */

static void on_buffer_wanted(uv_handle_t *tcp, size_t suggested,
                             uv_buf_t *buffer) {
  (void)tcp, (void)suggested;
  *buffer = uv_buf_init(bytes, BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t length,
                    const uv_buf_t *buffer) {
  const struct side *side = stream->data;
  uint32_t index = (uint32_t)((struct connection *)stream - connections);
  uv_buf_t echo = uv_buf_init(buffer->base, BYTES);

  if (length == 0)
    return; /* libuv's word for "try again" */
  no_error((int)length);
  if (side->timers != NULL)
    side->timers->refresh(&index, 1);
  no_error(uv_try_write(stream, &echo, 1));
  echoed = 1;
}

/* ---- The connections ----------------------------------------------------- */

/* Closed by a reset, a peer's socket leaves no port waiting. Neighbours belong
 * to different sides. */
static void connect_all(void) {
  const struct linger reset = {.l_onoff = 1};
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof(address);
  int listener = no_error(socket(AF_INET, SOCK_STREAM, 0));

  no_error(bind(listener, (struct sockaddr *)&address, size));
  no_error(listen(listener, 1));
  no_error(getsockname(listener, (struct sockaddr *)&address, &size));
  for (size_t i = 0; i < connection_count; i++) {
    int peer = no_error(socket(AF_INET, SOCK_STREAM, 0));
    uv_tcp_t *tcp = &connections[i].tcp;

    connections[i].peer = peer;
    setsockopt(peer, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    no_error(connect(peer, (struct sockaddr *)&address, size));
    no_error(uv_tcp_init(sides[i % 2].loop, tcp));
    no_error(uv_tcp_open(tcp, no_error(accept(listener, NULL, NULL))));
    tcp->data = &sides[i % 2];
    no_error(uv_read_start((uv_stream_t *)tcp, on_buffer_wanted, on_read));
  }
  close(listener);
}

static void make_orders(const struct orders *orders) {
  for (size_t i = 0; i < 2 * orders->n; i++) {
    uint32_t index = orders->shuffled[i / orders->n][i % orders->n];
    struct side *side = &sides[index % 2];

    if (index < connection_count)
      side->order[side->next++] = index;
  }
  sides[0].next = sides[1].next = 0;
}

/* Two descriptors for each connection. Returns whether they are allowed. */
static int get_descriptors(void) {
  static int told;
  struct rlimit limit;

  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max >= 2 * connection_count + 100)
    return 1;
  if (!told)
    fprintf(stderr, "skipped: messages, which take 19,100 descriptors\n");
  told = 1;
  return 0;
}

/* ---- What is measured ---------------------------------------------------- */

/* Returns the CPU time of the loop. Time passes only for timers. */
static double serve_block(struct side *side) {
  uint64_t sum = 0;

  for (size_t i = 0; i < BLOCK; i++) {
    int peer = connections[side->order[side->next]].peer;
    uint64_t begin;

    no_error((int)send(peer, bytes, BYTES, 0));
    if (side->timers != NULL)
      clock_move_ms(INTERVAL_MS * 2 / connection_count);
    echoed = 0;
    begin = clock_cpu_ns();
    while (!echoed)
      uv_run(side->loop, UV_RUN_NOWAIT);
    sum += clock_cpu_ns() - begin;
    no_error((int)recv(peer, bytes, BYTES, 0));
    side->next = (side->next + 1) % connection_count;
  }
  return (double)sum;
}

/* Connections come for most of a timeout: so what timers cost apart from
 * messages comes evenly, too. */
static void start_timers(const struct side *side) {
  size_t count = connection_count / 2;

  for (size_t i = 0; i < count; i++) {
    side->timers->start(side->order + i, 1);
    clock_move_ms((BENCH_TIMEOUT_MS - 3 * INTERVAL_MS / 2) / count);
    side->timers->advance();
  }
}

static int compare(const void *one, const void *other) {
  double difference = *(const double *)one - *(const double *)other;

  return (difference > 0) - (difference < 0);
}

/* Of all pairs the middle half counts. */
static void measure(struct side *timed, struct side *plain,
                    struct result *result) {
  double added[PAIRS], without = 0;
  size_t warm_up = 7 * connection_count / 2 / BLOCK; /* a timeout passes */

  for (size_t i = 0; i < warm_up + PAIRS; i++) {
    double ns = i % 2 == 0 ? serve_block(plain) : 0;

    added[i % PAIRS] = serve_block(timed);
    if (i % 2 == 1)
      ns = serve_block(plain);
    added[i % PAIRS] -= ns;
    without += i < warm_up ? 0 : ns;
  }
  add_result(result, ROW_MESSAGE, without / 1e3, PAIRS * BLOCK);
  qsort(added, PAIRS, sizeof(added[0]), compare);
  for (unsigned i = PAIRS / 4; i < PAIRS * 3 / 4; i++)
    add_result(result, ROW_ADDED, added[i] / 1e3, BLOCK);
}

/* In the next repetition the timers belong to the other side: the connections
 * of one may have better places in memory. */
void workload_messages(const struct rival *rival, const struct orders *orders,
                       struct result *result) {
  static const struct rival *first;
  static unsigned repetition;
  struct side *timed, *plain;
  struct arena arena = bench_arena;
  uv_loop_t plain_loop;

  connection_count =
      orders->n < MOST_CONNECTIONS ? orders->n : MOST_CONNECTIONS;
  if (!get_descriptors())
    return;
  first = first != NULL ? first : rival;
  repetition += rival == first;
  timed = &sides[repetition % 2];
  plain = &sides[(repetition + 1) % 2];
  connections = aligned_alloc(64, connection_count * sizeof(*connections));
  if (connections == NULL)
    bench_die("no memory for %zu connections", connection_count);
  bench_arena = (struct arena){connections->timer, sizeof(*connections)};
  no_error(uv_loop_init(&plain_loop));
  bench_fired = 0;
  rival->open();
  *plain = (struct side){.loop = &plain_loop};
  *timed = (struct side){.loop = &bench_loop, .timers = rival->can};
  make_orders(orders);
  connect_all();
  rival->can->set_times(BENCH_TIMEOUT_MS, 0);
  rival->can->init(timed->order, connection_count / 2);
  start_timers(timed);
  measure(timed, plain, result);
  expect_fired(rival, 0);
  close_rival(rival);
  libuv_close_loop(&plain_loop);
  for (size_t i = 0; i < connection_count; i++)
    close(connections[i].peer);
  bench_arena = arena;
  free(connections);
}
