/* SPDX-License-Identifier: MIT */

#include "wheel-forecast.h"

#include <math.h>

#include <uvwheel.h>

#define AGES 100          /* of last refreshes, over which stays are averaged */
#define MAX_TICK_MS 10000 /* to recommend: fewer wake-ups gain nothing */
#define HALVINGS 30       /* of the interval in which p is searched for */
#define VISITS 200 /* of the hand, after which several are taken as one */

/* One stay in a slot, on average. */
typedef struct stay_s {
  double looks;
  double length_ms;
  double completed; /* the chance that it does not end early */
} stay_t;

/* Adds the stay of a timer whose last refresh was age_ms ago. Of the hand's
 * visits before its last one, of which there may be millions, several are taken
 * as one: in these a timer has the same chance to be found refreshed. */
static void
add_stay(stay_t *sum, double due_in_ms, double refresh_ms, double tick_ms,
         double round_ms, double p)
{
  uint64_t earlier = (uint64_t)(due_in_ms / round_ms);
  uint64_t visits = earlier / VISITS + 1;
  double end_ms = due_in_ms + tick_ms / 2;
  double x_ms = end_ms - (double)earlier * round_ms;
  double unrefreshed = exp(-x_ms / refresh_ms); /* the chance of it */
  double step_ms = (double)visits * round_ms;
  double fewer = exp(-step_ms / refresh_ms), there = 1;

  for (; earlier >= visits && there > 1e-6; earlier -= visits) {
    double refreshed = 1 - unrefreshed;
    double moved = -there * expm1((double)visits * log1p(-p * refreshed));
    sum->looks +=
        refreshed > 0 ? moved / refreshed : there * p * (double)visits;
    sum->length_ms += moved * x_ms;
    there -= moved;
    unrefreshed *= fewer;
    x_ms += step_ms;
  }
  sum->looks += there;
  sum->length_ms += there * end_ms;
  sum->completed += there;
}

static stay_t
mean_stay(double timeout_ms, double refresh_ms, double tick_ms, double round_ms,
          double p)
{
  stay_t stay = {0};

  for (int i = 0; i < AGES; i++) {
    double age_ms = -refresh_ms * log(1 - (i + 0.5) / AGES);
    if (age_ms > timeout_ms)
      age_ms = 0; /* not refreshed in time: it fired */
    add_stay(&stay, timeout_ms - age_ms, refresh_ms, tick_ms, round_ms, p);
  }
  stay.looks /= AGES;
  stay.length_ms /= AGES;
  stay.completed /= AGES;
  return stay;
}

typedef struct rates_s {
  double looks;     /* per ms */
  double completed; /* stays that end at their due time, per ms */
} rates_t;

static rates_t
rates(const load_t *load, double tick_ms, double round_ms, double p)
{
  rates_t sum = {0};

  for (size_t i = 0; i < load->group_count; i++) {
    const group_t *group = &load->groups[i];
    stay_t stay = mean_stay((double)group->timeout_ms, load->refresh_ms,
                            tick_ms, round_ms, p);
    sum.looks += (double)group->count * stay.looks / stay.length_ms;
    sum.completed += (double)group->count * stay.completed / stay.length_ms;
  }
  return sum;
}

/* The chance that the hand looks into a slot. */
static double
find_p(const load_t *load, double tick_ms, double round_ms)
{
  double low = 0, high = 1;

  for (int i = 0; i < HALVINGS; i++) {
    double p = (low + high) / 2;
    if (1 - exp(-rates(load, tick_ms, round_ms, p).completed * tick_ms) > p)
      low = p;
    else
      high = p;
  }
  return low;
}

forecast_t
forecast(const load_t *load, uint64_t tick_ms, uint32_t slots)
{
  double tick = (double)tick_ms, round_ms = tick * slots;
  double p = find_p(load, tick, round_ms);
  uint64_t slot_bytes = sizeof(uvwheel_slot_t);
  uint64_t timers = 0;

  for (size_t i = 0; i < load->group_count; i++)
    timers += load->groups[i].count;
  return (forecast_t){
      .looks = 1000 * rates(load, tick, round_ms, p).looks,
      .needed = 1000 * rates(load, tick, INFINITY, 0).looks,
      .wakeups = 1000 / tick * p,
      .wheel_bytes = sizeof(uvwheel_t) + slots * slot_bytes + slots / 8,
      .timers_bytes = timers * sizeof(uvwheel_timer_t),
  };
}

uint64_t
recommend_tick_ms(const load_t *load)
{
  uint64_t shortest_ms = UINT64_MAX, tick_ms = 1;

  for (size_t i = 0; i < load->group_count; i++)
    if (load->groups[i].timeout_ms < shortest_ms)
      shortest_ms = load->groups[i].timeout_ms;
  while (tick_ms * 10 <= shortest_ms / 100)
    tick_ms *= 10;
  if (tick_ms * 5 <= shortest_ms / 100)
    tick_ms *= 5;
  else if (tick_ms * 2 <= shortest_ms / 100)
    tick_ms *= 2;
  return tick_ms < MAX_TICK_MS ? tick_ms : MAX_TICK_MS;
}

static int
is_enough(const load_t *load, uint64_t tick_ms, uint32_t slots)
{
  forecast_t expected = forecast(load, tick_ms, slots);

  return expected.looks <=
         expected.needed + fmax(expected.needed / 10, 1000.0 / (double)tick_ms);
}

/* Starts with a round that is longer than all timeouts: that is enough, if
 * there can be that many slots, and cheap to forecast. */
uint32_t
recommend_slots(const load_t *load, uint64_t tick_ms)
{
  uint64_t longest_ms = 0;
  uint32_t slots = 64;

  for (size_t i = 0; i < load->group_count; i++)
    if (load->groups[i].timeout_ms > longest_ms)
      longest_ms = load->groups[i].timeout_ms;
  while (slots < UVWHEEL_MAX_SLOTS && slots * tick_ms < longest_ms + tick_ms)
    slots *= 2;
  while (slots > 64 && is_enough(load, tick_ms, slots / 2))
    slots /= 2;
  return slots;
}
