/* SPDX-License-Identifier: MIT */

#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <getopt.h>

#include "cli.h"

#define MAX_ROWS 32
#define HELP MAX_ROWS /* getopt_long returns it, or the number of a row */

static const option_row_t help_row = {
    .name = "help", .value = NULL, .help = "show this"};

/* ---- Help --------------------------------------------------------------- */

#define COLUMN 23 /* where the help of an option begins */

static void show_row(const option_row_t *row) {
  const char *value = row->value != NULL ? row->value : "";
  int width = COLUMN - (int)(strlen("  -- ") + strlen(row->name));

  announce("  --%s %-*s", row->name, width, value);
  for (const char *line = row->help;;) {
    int length = (int)strcspn(line, "\n");
    announce("%.*s\n", length, line);
    if (line[length] == '\0')
      return;
    line += length + 1;
    announce("%*s", COLUMN, "");
  }
}

_Noreturn static void show_help(const command_line_t *line) {
  announce("Usage: %s [OPTION]...\n%s\n", program, line->description);
  for (size_t i = 0; i < line->count; i++)
    if ((line->rows[i].programs & line->program) != 0)
      show_row(&line->rows[i]);
  show_row(&help_row);
  announce("\n%s", line->ending);
  exit(EXIT_SUCCESS);
}

/* ---- Values ------------------------------------------------------------- */

/* The whole text as a decimal number from min to max, or a usage error. */
static uint64_t parse_number(const char *option, const char *text, uint64_t min,
                             uint64_t max) {
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);

  /* strtoull alone would take " 5", "+5" and even "-5". */
  if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 ||
      number < min || number > max)
    usage_error("--%s takes a number from %" PRIu64 " to %" PRIu64 ", not '%s'",
                option, min, max, text);
  return number;
}

static void set_value(const option_row_t *row, void *options, char *text) {
  void *field = (char *)options + row->offset;

  if (row->value == NULL)
    *(int *)field = 1;
  else if (row->size == 0)
    *(const char **)field = text;
  else {
    uint64_t number = parse_number(row->name, text, row->min, row->max);
    if (row->size == sizeof(uint64_t))
      *(uint64_t *)field = number;
    else if (row->size == sizeof(uint32_t))
      *(uint32_t *)field = (uint32_t)number;
    else
      *(uint16_t *)field = (uint16_t)number;
  }
}

/* ---- All of it ---------------------------------------------------------- */

void parse_command_line(int argc, char **argv, const command_line_t *line,
                        void *options) {
  struct option names[MAX_ROWS + 2] = {{"help", no_argument, NULL, HELP}};
  char *slash = strrchr(argv[0], '/');
  int known = 1, option;

  if (slash != NULL) /* getopt_long's complaints begin with that */
    argv[0] = slash + 1;
  for (size_t i = 0; i < line->count; i++)
    if ((line->rows[i].programs & line->program) != 0)
      names[known++] = (struct option){
          .name = line->rows[i].name,
          .has_arg =
              line->rows[i].value == NULL ? no_argument : required_argument,
          .val = (int)i,
      };
  while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
    if (option == HELP)
      show_help(line);
    if (option == '?')
      exit(EXIT_USAGE); /* getopt_long has complained */
    set_value(&line->rows[option], options, optarg);
  }
  if (optind < argc)
    usage_error("unexpected argument '%s'", argv[optind]);
}
