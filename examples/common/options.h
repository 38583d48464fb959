/* SPDX-License-Identifier: MIT */

/* Command lines. A table has the name of each option, its line of --help and
 * where its value goes; programs with much the same options share one. */

#ifndef EXAMPLES_OPTIONS_H
#define EXAMPLES_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef struct option_row_s {
  unsigned programs; /* those that have it, as bits                      */
  const char *name;
  const char *value; /* its name in --help; NULL: none, an int becomes 1 */
  const char *help;  /* one line or several                              */
  size_t offset;     /* of its field, in what the program passes */
  size_t size;       /* of a number; 0: a text, as it is                 */
  uint64_t min, max; /* of a number                                      */
} option_row_t;

/* The ends of a row: for a field of what the program passes. */
#define OPTION_FIELD(type, field) .offset = offsetof(type, field)
#define OPTION_NUMBER(type, field, least, most)                        \
  .offset = offsetof(type, field), .size = sizeof(((type *)0)->field), \
  .min = (least), .max = (most)

typedef struct command_line_s {
  unsigned program;        /* its bit                            */
  const char *description; /* whole lines: what it does          */
  const char *ending;      /* whole lines, after the options     */
  const option_row_t *rows;
  size_t count;
} command_line_t;

/* Fills *options, which has the defaults; ends the program after --help or a
 * complaint. */
void parse_command_line(int argc, char **argv, const command_line_t *line,
                        void *options);

#endif /* EXAMPLES_OPTIONS_H */
