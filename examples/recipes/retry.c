/* SPDX-License-Identifier: MIT */

/* Requests with a deadline, and retries that do not come all at once.
 *
 * Each request has one timer. It is the deadline of an answer, and when that
 * has passed, the pause before the next attempt. An answer stops it, which is
 * all that happens to the timers of most requests.
 *
 * A thousand clients lose their server at the same moment, so all deadlines
 * pass at the same moment. If all then waited equally long, the server would
 * get a thousand requests at once, again and again, even when it has just come
 * back. So each pause is drawn at random, up to a limit that doubles with each
 * attempt ("full jitter"). The program does it both ways and counts what the
 * server gets in the worst 100 ms. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uvwheel.h>

#define CLIENTS 1000
#define DEADLINE_MS 100
#define FIRST_PAUSE_MS 250 /* at most; doubled with each attempt */
#define LAST_PAUSE_MS 2000
#define BACK_MS 1000 /* when the server answers again */
#define STEP_MS 100
#define STEPS 100

typedef struct request_s {
  uvwheel_timer_t timer;
  unsigned attempts;
} request_t;

static uv_loop_t loop;
static uvwheel_t wheel;
static uint64_t start_ms;
static int with_jitter;
static request_t requests[CLIENTS];
static unsigned answered;
static unsigned received[STEPS]; /* by the server, in each 100 ms */

static void on_deadline(uvwheel_timer_t *timer);

/* With the server's side of it, in place of a network. */
static void
attempt(uvwheel_timer_t *timer)
{
  request_t *request = timer->data;
  uint64_t passed_ms = uv_now(&loop) - start_ms;

  request->attempts++;
  uvwheel_timer_start(timer, on_deadline, DEADLINE_MS, 0);
  if (passed_ms / STEP_MS < STEPS)
    received[passed_ms / STEP_MS]++;
  if (passed_ms >= BACK_MS) { /* an answer */
    answered++;
    uvwheel_timer_stop(timer);
  }
}

/* uv_random, not rand: that gives all processes the same numbers, and a
 * thousand processes on a thousand machines would be in step again. */
static uint64_t
pause_ms(unsigned attempts)
{
  uint64_t limit_ms = FIRST_PAUSE_MS, random;

  while (--attempts > 0 && limit_ms < LAST_PAUSE_MS)
    limit_ms *= 2;
  if (!with_jitter ||
      uv_random(NULL, NULL, &random, sizeof(random), 0, NULL) != 0)
    return limit_ms;
  return random % (limit_ms + 1);
}

static void
on_deadline(uvwheel_timer_t *timer)
{
  request_t *request = timer->data;

  uvwheel_timer_start(timer, attempt, pause_ms(request->attempts), 0);
}

static void
run(void)
{
  unsigned worst = 0;

  memset(received, 0, sizeof(received));
  answered = 0;
  uv_update_time(&loop);
  start_ms = uv_now(&loop);
  for (int i = 0; i < CLIENTS; i++) {
    requests[i] = (request_t){.timer.data = &requests[i]};
    uvwheel_timer_init(&wheel, &requests[i].timer);
    attempt(&requests[i].timer);
  }
  uv_run(&loop, UV_RUN_DEFAULT); /* until all are answered */
  for (int i = BACK_MS / STEP_MS; i < STEPS; i++)
    worst = received[i] > worst ? received[i] : worst;
  printf("%s jitter: %u answered, %u at once at worst\n",
         with_jitter ? "with" : "without", answered, worst);
}

int
main(void)
{
  uvwheel_options_t options = {.tick_ms = 10};

  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, &options) != 0)
    return EXIT_FAILURE;
  for (with_jitter = 0; with_jitter < 2; with_jitter++)
    run();
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
