/* SPDX-License-Identifier: MIT */

/* Timeouts are unsigned: the timer of a deadline that has passed would never
 * fire. A timer that is started for a date comes too late if a Linux machine is
 * suspended, and not at all if the program is started again.
 *
 * start_at clamps a deadline that has passed: it fires at the next tick. For a
 * date, keep the date itself, on disk. Its timer runs for a minute at most
 * (here a second), and whenever it fires the program looks at the date. Both
 * are started and never refreshed: so a stall does not move them.
 *
 * A request has a deadline of 500 ms. After 1 s, when that has passed, the
 * program starts again and takes the request up. A reminder is for an hour and
 * 3 s from now. After 2 s the machine is suspended for an hour. */

#include "recipe.h"

#define HOUR_MS (60 * 60 * 1000)
#define LOOK_MS 1000 /* in your server 60000 */

static uvwheel_timer_t request, reminder, restart;
static uint64_t deadline_ms, date_ms;

/* time_ms is a time of uv_now(). */
static void start_at(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                     uint64_t time_ms) {
  uint64_t now_ms = uv_now(&loop);

  uvwheel_timer_start(timer, cb, time_ms > now_ms ? time_ms - now_ms : 0, 0);
}

static void on_deadline(uvwheel_timer_t *timer) {
  (void)timer;
  say("request", "its deadline has passed");
}

/* In place of uv_gettimeofday. After 2 s an hour is missing. */
static uint64_t get_date_ms(void) {
  return uv_now(&loop) + (uv_now(&loop) - start_ms < 2000 ? 0 : HOUR_MS);
}

/* Also at the start of the program, with the date from the disk. */
static void on_look(uvwheel_timer_t *timer) {
  uint64_t now_ms = get_date_ms();
  uint64_t left_ms = date_ms - now_ms;

  if (now_ms >= date_ms)
    say("reminder", "the time has come");
  else
    uvwheel_timer_start(timer, on_look, left_ms < LOOK_MS ? left_ms : LOOK_MS,
                        0);
}

static void on_restart(uvwheel_timer_t *timer) {
  (void)timer;
  start_at(&request, on_deadline, deadline_ms);
  uvwheel_timer_close(&reminder); /* all but the date is lost */
  uvwheel_timer_init(&wheel, &reminder);
  on_look(&reminder);
}

int main(void) {
  begin(&(uvwheel_options_t){.tick_ms = 10});
  uvwheel_timer_init(&wheel, &request);
  uvwheel_timer_init(&wheel, &reminder);
  uvwheel_timer_init(&wheel, &restart);
  deadline_ms = uv_now(&loop) + 500;
  start_at(&request, on_deadline, deadline_ms);
  date_ms = get_date_ms() + HOUR_MS + 3000;
  on_look(&reminder);
  uvwheel_timer_start(&restart, on_restart, 1000, 0);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active */
  return end();
}
