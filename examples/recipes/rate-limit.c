/* SPDX-License-Identifier: MIT */

/* A peer that may send only a number of bytes per second.
 *
 * The usual bucket: it fills with time, up to BURST bytes, and what is read is
 * taken out of it. No timer fills it: how much has come in since the last look
 * follows from the clock, so a peer within its limit costs nothing. Only a peer
 * that has used up its bucket gets a timer. Until that fires nothing is read
 * from it, the kernel's buffers run full, and the peer has to wait.
 *
 * The peer here sends 5000 bytes at once. The first 1000 are its burst, the
 * rest takes two seconds. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <sys/socket.h>
#include <unistd.h>
#include <uvwheel.h>

#define BYTES_PER_MS 2
#define BURST 1000
#define WORTHWHILE 400 /* no peer is woken up for less */

static uv_loop_t loop;
static uvwheel_t wheel;
static uint64_t start_ms;

/* A connection. */
static uv_pipe_t stream;
static uvwheel_timer_t refill;
static uint64_t bucket = BURST;
static uint64_t filled_ms; /* when it was last looked at */

static void
fill_bucket(void)
{
  bucket += (uv_now(&loop) - filled_ms) * BYTES_PER_MS;
  if (bucket > BURST)
    bucket = BURST;
  filled_ms = uv_now(&loop);
}

/* Reads no more than the bucket holds. */
static void
on_buffer(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
  static char bytes[BURST];

  (void)handle, (void)size;
  fill_bucket();
  *buffer = uv_buf_init(bytes, (unsigned)bucket);
}

static void on_refill(uvwheel_timer_t *timer);

static void
on_read(uv_stream_t *handle, ssize_t length, const uv_buf_t *buffer)
{
  (void)buffer;
  if (length < 0) {
    uvwheel_timer_stop(&refill);
    uv_close((uv_handle_t *)handle, NULL);
    return;
  }
  bucket -= (uint64_t)length;
  printf("%4" PRIu64 " ms: %d bytes\n", uv_now(&loop) - start_ms, (int)length);
  if (bucket >= WORTHWHILE)
    return;
  uv_read_stop(handle);
  uvwheel_timer_start(&refill, on_refill, (WORTHWHILE - bucket) / BYTES_PER_MS,
                      0);
}

static void
on_refill(uvwheel_timer_t *timer)
{
  (void)timer;
  uv_read_start((uv_stream_t *)&stream, on_buffer, on_read);
}

/* The peer, at the other end of a pair of sockets. */
static int
open_stream(void)
{
  static const char bytes[5000];
  int ends[2];

  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 ||
      write(ends[1], bytes, sizeof(bytes)) != sizeof(bytes))
    return -1;
  close(ends[1]);
  return uv_pipe_init(&loop, &stream, 0) != 0 ? -1
                                              : uv_pipe_open(&stream, ends[0]);
}

int
main(void)
{
  uvwheel_options_t options = {.tick_ms = 10};

  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, &options) != 0 ||
      open_stream() != 0)
    return EXIT_FAILURE;
  start_ms = filled_ms = uv_now(&loop);
  uvwheel_timer_init(&wheel, &refill);
  uv_read_start((uv_stream_t *)&stream, on_buffer, on_read);
  uv_run(&loop, UV_RUN_DEFAULT); /* until the peer has gone */
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
