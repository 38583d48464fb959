/* SPDX-License-Identifier: MIT */

/* A thousand clients lose their server at the same moment, so their answers
 * are missed together. If all then waited equally long, the server would get a
 * thousand requests at once, again and again, even when it has just come back.
 *
 * So each pause is drawn at random, up to a limit that doubles with each
 * attempt ("full jitter"). The timer of a request expects the answer, which
 * stops it. If none comes, it is started for the pause before the next attempt:
 * what is sent must not be late because of a stall. The program does it both
 * ways and counts what the server gets in the worst 100 ms. */

#include "recipe.h"

#define CLIENTS 1000
#define ANSWER_MS 100
#define FIRST_PAUSE_MS 250 /* at most; doubled with each attempt */
#define LAST_PAUSE_MS 2000
#define BACK_MS 1000 /* when the server answers again */

typedef struct request_s {
  uvwheel_timer_t timer;
  unsigned attempts;
} request_t;

static uint64_t begin_ms;
static int with_jitter;
static request_t requests[CLIENTS];
static unsigned answered;
static crowd_t received; /* by the server, once it is back */

static void on_no_answer(uvwheel_timer_t *timer);

/* With the server's side of it, in place of a network. */
static void attempt(uvwheel_timer_t *timer) {
  request_t *request = timer->data;
  uint64_t passed_ms = uv_now(&loop) - begin_ms;

  request->attempts++;
  uvwheel_timer_expect(timer, on_no_answer, ANSWER_MS);
  if (passed_ms >= BACK_MS) { /* an answer */
    add_to_crowd(&received, 100);
    answered++;
    uvwheel_timer_stop(timer);
  }
}

static uint64_t pause_ms(unsigned attempts) {
  uint64_t limit_ms = FIRST_PAUSE_MS;

  while (--attempts > 0 && limit_ms < LAST_PAUSE_MS)
    limit_ms *= 2;
  return with_jitter ? random_below(limit_ms + 1) : limit_ms;
}

static void on_no_answer(uvwheel_timer_t *timer) {
  request_t *request = timer->data;

  uvwheel_timer_start(timer, attempt, pause_ms(request->attempts), 0);
}

static void run(void) {
  received.most = 0;
  answered = 0;
  uv_update_time(&loop);
  begin_ms = uv_now(&loop);
  for (int i = 0; i < CLIENTS; i++) {
    requests[i] = (request_t){.timer.data = &requests[i]};
    uvwheel_timer_init(&wheel, &requests[i].timer);
    attempt(&requests[i].timer);
  }
  uv_run(&loop, UV_RUN_DEFAULT); /* until all are answered */
  printf("%s jitter: %u answered after %" PRIu64 " ms, %u at once at worst\n",
         with_jitter ? "with" : "without", answered, uv_now(&loop) - begin_ms,
         received.most);
}

int main(void) {
  begin(&(uvwheel_options_t){.tick_ms = 10});
  for (with_jitter = 0; with_jitter < 2; with_jitter++)
    run();
  return end();
}
