/* SPDX-License-Identifier: MIT */

/* When memory is short, a server that changes only the timeout of newcomers
 * keeps the idle connections that it has, each for up to a minute more.
 *
 * So a walk gives each timer what is left of the new timeout: 100,000 take some
 * milliseconds. It meets all timers of its wheel: those of newcomers (see
 * shed), deadlines and ages belong on another one.
 *
 * 2,000 peers a second connect for 50 s, and say nothing. One that was there
 * before speaks every 5 s. Then memory is short. Time runs ten times as fast.
 */

#include "recipe.h"

#define SECOND 100 /* ms; in your server 1000 */
#define ARRIVALS 2000

static uint64_t idle_ms = 60 * SECOND;
static uvwheel_timer_t *speaker;

static void on_idle(uvwheel_timer_t *timer) {
  if (timer == speaker) /* it is late on a busy machine */
    speaker = NULL;
  uvwheel_timer_close(timer);
  free(timer);
}

static void open_connection(uvwheel_timer_t *idle) {
  uvwheel_timer_init(&wheel, idle);
  uvwheel_timer_expect(idle, on_idle, idle_ms);
}

/* Its timer is all of it. */
static void on_connection(void) {
  open_connection(allocate(sizeof(uvwheel_timer_t)));
}

/* The peer is expected for what is left, and after its next packet for the new
 * timeout: a refresh takes the repeat. */
static void adjust(uvwheel_timer_t *timer, void *old_ms) {
  uint64_t old = *(uint64_t *)old_ms;
  uint64_t sum = uvwheel_timer_get_due_in(timer) + idle_ms;

  uvwheel_timer_expect(timer, on_idle, sum > old ? sum - old : 0);
  uvwheel_timer_set_repeat(timer, idle_ms);
}

/* Also for the way back to the longer timeout. */
static void set_idle(uint64_t new_ms) {
  uint64_t old_ms = idle_ms;

  idle_ms = new_ms;
  uvwheel_walk(&wheel, adjust, &old_ms);
}

/* In place of the network. */
static void on_second(uv_timer_t *timer) {
  static unsigned seconds;

  seconds++;
  for (int i = 0; i < ARRIVALS && seconds <= 50; i++)
    on_connection();
  if (seconds % 5 == 3 && speaker != NULL)
    uvwheel_timer_refresh(speaker);
  if (seconds == 50)
    set_idle(6 * SECOND);
  if (seconds == 60)
    on_connection();
  if (seconds >= 50)
    printf("%u s: %" PRIu64 " open\n", seconds, uvwheel_count(&wheel));
  if (seconds == 70) {
    uv_close((uv_handle_t *)timer, NULL);
    uvwheel_fire_soonest(&wheel, UINT64_MAX); /* all */
  }
}

int main(void) {
  uv_timer_t network;

  begin(&(uvwheel_options_t){.tick_ms = 10});
  if (uv_timer_init(&loop, &network) != 0)
    return EXIT_FAILURE;
  speaker = allocate(sizeof(*speaker));
  open_connection(speaker);
  uv_timer_start(&network, on_second, SECOND, SECOND);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active */
  return end();
}
