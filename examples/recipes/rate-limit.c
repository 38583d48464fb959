/* SPDX-License-Identifier: MIT */

/* One peer that sends all it can keeps the server from the others. So a peer
 * may send only a number of bytes per second.
 *
 * The usual bucket: it fills with time, up to BURST bytes, and what is read is
 * taken out of it. How much has come in since the last look follows from the
 * clock. A peer whose bucket holds too little has to wait: until the timer
 * fires nothing is read from it. While it is read, the same timer is its idle
 * timeout. If that ran on, it would close peers whose bytes wait.
 *
 * The peer here sends 5000 bytes at once, and then nothing. The first 1000 are
 * its burst, the rest takes two seconds. */

#include <sys/socket.h>
#include <unistd.h>

#include "recipe.h"

#define BYTES_PER_MS 2
#define BURST 1000
#define WORTHWHILE 400 /* no peer is woken up for less */
#define IDLE_MS 150    /* less than a pause takes */

/* A connection. */
static uv_pipe_t stream;
static uvwheel_timer_t timer;
static uint64_t bucket = BURST;
static uint64_t filled_ms; /* when it was last looked at */

/* Reads no more than the bucket holds. */
static void on_buffer(uv_handle_t *handle, size_t size, uv_buf_t *buffer) {
  static char bytes[BURST];

  (void)handle, (void)size;
  bucket += (uv_now(&loop) - filled_ms) * BYTES_PER_MS;
  if (bucket > BURST)
    bucket = BURST;
  filled_ms = uv_now(&loop);
  *buffer = uv_buf_init(bytes, (unsigned)bucket);
}

static void on_refill(uvwheel_timer_t *expired);

static void close_stream(uvwheel_timer_t *expired) {
  say("peer", "closed");
  uvwheel_timer_close(expired);
  uv_close((uv_handle_t *)&stream, NULL);
}

static void on_read(uv_stream_t *handle, ssize_t length,
                    const uv_buf_t *buffer) {
  (void)buffer;
  if (length == 0)
    return; /* libuv's word for "try again" */
  if (length < 0) {
    close_stream(&timer);
    return;
  }
  bucket -= (uint64_t)length;
  printf("%4" PRIu64 " ms: %d bytes\n", uv_now(&loop) - start_ms, (int)length);
  if (bucket >= WORTHWHILE) {
    uvwheel_timer_refresh(&timer);
    return;
  }
  uv_read_stop(handle);
  uvwheel_timer_start(&timer, on_refill, (WORTHWHILE - bucket) / BYTES_PER_MS,
                      0);
}

static void on_refill(uvwheel_timer_t *expired) {
  uv_read_start((uv_stream_t *)&stream, on_buffer, on_read);
  uvwheel_timer_expect(expired, close_stream, IDLE_MS);
}

/* The peer, at the other end of a pair of sockets. */
static int open_stream(void) {
  static const char bytes[5000];
  int ends[2];

  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 ||
      write(ends[1], bytes, sizeof(bytes)) != sizeof(bytes))
    return -1;
  return uv_pipe_init(&loop, &stream, 0) != 0 ? -1
                                              : uv_pipe_open(&stream, ends[0]);
}

int main(void) {
  begin(&(uvwheel_options_t){.tick_ms = 10});
  if (open_stream() != 0)
    return EXIT_FAILURE;
  filled_ms = start_ms;
  uvwheel_timer_init(&wheel, &timer);
  on_refill(&timer);             /* begins to read */
  uv_run(&loop, UV_RUN_DEFAULT); /* until it is closed */
  return end();
}
