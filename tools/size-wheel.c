/* SPDX-License-Identifier: MIT */

/* Tells what a wheel costs for given timers, and which tick and how many slots
 * to give it. wheel-forecast.h explains how it knows. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <getopt.h>
#include <uvwheel.h>

#include "../examples/common/cli.h"
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

static const char help[] =
    "Usage: size-wheel --timeout TIME:COUNT [OPTION]...\n"
    "Tells what a wheel costs for so many timers with such timeouts.\n"
    "\n"
    "  --timeout TIME:COUNT  so many timers are active at a time; may be "
    "given\n"
    "                        several times\n"
    "  --refresh TIME        each is refreshed that often, on average (never)\n"
    "  --tick TIME           tick of the wheel (recommends one)\n"
    "  --slots N             slots of the wheel (recommends them)\n"
    "  --help                show this\n"
    "\n"
    "A TIME is a number and ms, s, m, h or d; a mere number is in ms.\n";

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
add_group(arguments_t *arguments, char *text)
{
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

static uint64_t
power_of_two(uint64_t at_least)
{
  uint64_t power = 1;

  while (power < at_least)
    power *= 2;
  return power;
}

static void
parse(arguments_t *arguments, int argc, char **argv)
{
  static const struct option options[] = {
      {"timeout", required_argument, NULL, 't'},
      {"refresh", required_argument, NULL, 'r'},
      {"tick", required_argument, NULL, 'i'},
      {"slots", required_argument, NULL, 's'},
      {"help", no_argument, NULL, 'h'},
      {0}};
  int option;

  drop_path_of_program(argv);
  arguments->load.refresh_ms = INFINITY;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
    if (option == 't')
      add_group(arguments, optarg);
    else if (option == 'r')
      arguments->load.refresh_ms =
          (double)parse_time("refresh", optarg, MAX_TIMEOUT_MS);
    else if (option == 'i')
      arguments->tick_ms = parse_time("tick", optarg, UVWHEEL_MAX_TICK_MS);
    else if (option == 's')
      arguments->slots =
          power_of_two(parse_number("slots", optarg, 1, UVWHEEL_MAX_SLOTS));
    else if (option == 'h')
      show_help(help);
    else
      exit(EXIT_USAGE);
  if (optind < argc)
    usage_error("unexpected argument '%s'", argv[optind]);
  if (arguments->load.group_count == 0)
    usage_error("no --timeout is given; see --help");
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
  arguments_t arguments = {.load.groups = arguments.groups};
  const load_t *load = &arguments.load;

  parse(&arguments, argc, argv);
  uint64_t tick_ms = arguments.tick_ms, slots = arguments.slots;
  if (tick_ms == 0)
    tick_ms = recommend_tick_ms(load);
  if (slots == 0)
    slots = recommend_slots(load, tick_ms);
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
