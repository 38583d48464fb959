/* SPDX-License-Identifier: MIT */

#include "progress.h"

#include <stdarg.h>
#include <stdio.h>

#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)

void
progress_begin(progress_t *progress, uint64_t now_ns)
{
  progress->on_terminal = isatty(STDERR_FILENO);
  progress->shown_ns = now_ns;
}

int
progress_is_due(progress_t *progress, uint64_t now_ns)
{
  uint64_t period_ns = (progress->on_terminal ? 200 : 2000) * NS_PER_MS;

  if (now_ns - progress->shown_ns < period_ns)
    return 0;
  progress->shown_ns = now_ns;
  return 1;
}

void
progress_show(const progress_t *progress, const char *phase, double share,
              const char *format, ...)
{
  static const char full[] = "####################";
  va_list arguments;

  if (share > 1)
    share = 1;
  if (progress->on_terminal)
    fprintf(stderr, "\r%-10s [%-20.*s]", phase, (int)(share * 20), full);
  else
    fprintf(stderr, "%s:", phase);
  fprintf(stderr, " %3.0f %%, ", share * 100);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputs(progress->on_terminal ? " " : "\n", stderr);
}

void
progress_end(const progress_t *progress)
{
  if (progress->on_terminal)
    fprintf(stderr, "\r%79s\r", "");
}
