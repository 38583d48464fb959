/* SPDX-License-Identifier: MIT */

/* Prints what a wheel costs for given timers, and which tick and how many slots
 * suit them best. wheel-forecast.h explains the formulas. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uvwheel.h>

#include "../examples/common/cli.h"
#include "../examples/common/options.h"
#include "wheel-forecast.h"

#define MAX_GROUPS 16
#define MAX_COUNT UINT64_C(1000000000000)

const char *const program = "size-wheel";

typedef struct arguments_s {
  group_t groups[MAX_GROUPS];
  load_t load;
  uint64_t tick_ms; /* 0: to be recommended */
  uint64_t slots;   /* likewise */
} arguments_t;

static const struct {
  const char *name;
  uint64_t ms;
} units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000},
             {"s", 1000},     {"ms", 1},      {"", 1}};
#define UNITS (sizeof(units) / sizeof(units[0]))

static uint64_t
parse_time(const char *option, const char *text, uint64_t max_ms)
{
  size_t digits = strspn(text, "0123456789"), unit = 0;
  char number[32];

  while (unit < UNITS && strcmp(text + digits, units[unit].name) != 0)
    unit++;
  if (digits == 0 || unit == UNITS)
    usage_error("--%s takes a time such as 500ms, 60s, 15m or 1d, not '%s'",
                option, text);
  snprintf(number, sizeof(number), "%.*s", (int)digits, text);
  uint64_t ms = parse_number(option, number, 0, UINT64_MAX / units[unit].ms) *
                units[unit].ms;
  if (ms == 0 || ms > max_ms)
    usage_error("--%s takes a time from 1ms to %" PRIu64 "ms, not '%s'", option,
                max_ms, text);
  return ms;
}

static void
add_group(void *options, char *text)
{
  arguments_t *arguments = options;
  char *count = strchr(text, ':');

  if (count == NULL)
    usage_error("--timeout takes a time and a count such as 60s:1000000, "
                "not '%s'",
                text);
  if (arguments->load.group_count == MAX_GROUPS)
    usage_error("--timeout can be given %d times", MAX_GROUPS);
  *count++ = '\0';
  arguments->groups[arguments->load.group_count++] =
      (group_t){.timeout_ms = parse_time("timeout", text, MAX_TIMEOUT_MS),
                .count = parse_number("timeout", count, 1, MAX_COUNT)};
}

static void
set_refresh(void *options, char *text)
{
  ((arguments_t *)options)->load.refresh_ms =
      (double)parse_time("refresh", text, MAX_TIMEOUT_MS);
}

static void
set_tick(void *options, char *text)
{
  ((arguments_t *)options)->tick_ms =
      parse_time("tick", text, UVWHEEL_MAX_TICK_MS);
}

static const option_row_t rows[] = {
    {1, "timeout", "TIME:COUNT",
     "COUNT timers are active at a time; may be\ngiven several times",
     .parse = add_group},
    {1, "refresh", "TIME", "each is refreshed that often, on average (never)",
     .parse = set_refresh},
    {1, "tick", "TIME", "tick of the wheel (recommends one)",
     .parse = set_tick},
    {1, "slots", "N", "slots of the wheel (recommends them)",
     OPTION_NUMBER(arguments_t, slots, 1, UVWHEEL_MAX_SLOTS)},
};

static const command_line_t command_line = {
    .program = 1,
    .usage = "--timeout TIME:COUNT [OPTION]...",
    .description =
        "Prints what a wheel costs for timers with these timeouts.\n",
    .ending = "A TIME is a number and ms, s, m, h or d; a number alone is "
              "in ms.\n",
    .rows = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
};

static uint64_t
power_of_two(uint64_t at_least)
{
  uint64_t power = 1;

  while (power < at_least)
    power *= 2;
  return power;
}

/* In ms, s or h: the others would need fractions too often. */
static void
print_time(double ms)
{
  if (ms < 1000)
    printf("%.4g ms", ms);
  else if (ms < 2 * 3600000)
    printf("%.4g s", ms / 1000);
  else
    printf("%.4g h", ms / 3600000);
}

static void
print_rate(double rate)
{
  printf(rate < 100 ? "%.3g" : "%.0f", rate);
}

static void
print_bytes(uint64_t bytes)
{
  if (bytes < UINT64_C(1) << 20)
    printf("%.1f KiB", (double)bytes / 1024);
  else
    printf("%.1f MiB", (double)bytes / (1024 * 1024));
}

static void
print_load(const load_t *load)
{
  for (size_t i = 0; i < load->group_count; i++) {
    printf("timers      %" PRIu64 " of ", load->groups[i].count);
    print_time((double)load->groups[i].timeout_ms);
    if (isfinite(load->refresh_ms)) {
      printf(", refreshed every ");
      print_time(load->refresh_ms);
    }
    putchar('\n');
  }
}

static void
print_forecast(const forecast_t *expected, uint64_t tick_ms)
{
  printf("memory      ");
  print_bytes(expected->wheel_bytes);
  printf(" for the wheel, ");
  print_bytes(expected->timers_bytes);
  printf(" for the timers (");
  print_bytes(expected->timers_bytes / sizeof(uvwheel_timer_t) *
              sizeof(uv_timer_t));
  printf(" with uv_timer_t)\nlateness    at most ");
  print_time((double)tick_ms);
  printf("\nlooks       ");
  print_rate(expected->looks);
  printf(" per second, ");
  print_rate(expected->needed);
  printf(" of them needed\nwake-ups    ");
  print_rate(expected->wakeups);
  printf(" per second\n");
}

int
main(int argc, char **argv)
{
  arguments_t arguments = {
      .load = {.groups = arguments.groups, .refresh_ms = INFINITY}};
  const load_t *load = &arguments.load;

  parse_command_line(argc, argv, &command_line, &arguments);
  if (load->group_count == 0)
    usage_error("no --timeout is given; see --help");
  uint64_t tick_ms = arguments.tick_ms, slots = arguments.slots;
  if (tick_ms == 0)
    tick_ms = recommend_tick_ms(load);
  slots = slots == 0 ? recommend_slots(load, tick_ms) : power_of_two(slots);
  print_load(load);
  printf("tick        ");
  print_time((double)tick_ms);
  printf("%s\nslots       %" PRIu64 "%s: a round takes ",
         arguments.tick_ms == 0 ? ", recommended" : "", slots,
         arguments.slots == 0 ? ", recommended" : "");
  print_time((double)(tick_ms * slots));
  putchar('\n');
  forecast_t expected = forecast(load, tick_ms, (uint32_t)slots);
  print_forecast(&expected, tick_ms);
  return EXIT_SUCCESS;
}
