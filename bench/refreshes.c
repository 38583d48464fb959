/* SPDX-License-Identifier: MIT */

/* Preloaded into idle-server by bench/server. The server refreshes a timer
 * twice for each message; with this it does so REFRESHES times, as a server
 * that handles a message in several steps does. */

#include <dlfcn.h>
#include <stdlib.h>

#include <uv.h>
#include <uvwheel.h>

static int (*refresh_wheel)(uvwheel_timer_t *timer);
static int (*refresh_libuv)(uv_timer_t *timer);
static uint64_t (*stamp)(const uv_loop_t *loop);
static unsigned long per_message;

__attribute__((constructor)) static void find(void) {
  const char *text = getenv("REFRESHES");

  per_message = text != NULL ? strtoul(text, NULL, 10) : 2;
  *(void **)&refresh_wheel = dlsym(RTLD_NEXT, "uvwheel_timer_refresh");
  *(void **)&refresh_libuv = dlsym(RTLD_NEXT, "uv_timer_again");
  *(void **)&stamp = dlsym(RTLD_NEXT, "uv_now");
}

/* How many are due at one of the server's two calls. */
static unsigned long due(void) {
  static unsigned long halves;
  unsigned long count;

  halves += per_message;
  count = halves / 2;
  halves %= 2;
  return count;
}

int uvwheel_timer_refresh(uvwheel_timer_t *timer) {
  for (unsigned long i = due(); i > 0; i--)
    refresh_wheel(timer);
  return 0;
}

/* libuv itself calls this when a timer with a repeat has fired. */
int uv_timer_again(uv_timer_t *timer) {
  if (!uv_is_active((uv_handle_t *)timer))
    return refresh_libuv(timer);
  for (unsigned long i = due(); i > 0; i--)
    refresh_libuv(timer);
  return 0;
}

/* Of the stamp of --timer sweep this is what takes time. */
uint64_t uv_now(const uv_loop_t *loop) {
  for (unsigned long i = due(); i > 1; i--)
    stamp(loop);
  return stamp(loop);
}
