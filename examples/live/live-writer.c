/* SPDX-License-Identifier: MIT */

#include "live-writer.h"

#include <stdarg.h>
#include <stdio.h>

void
live_put(live_writer_t *writer, const char *format, ...)
{
  va_list arguments;

  va_start(arguments, format);
  writer->length +=
      (size_t)vsnprintf(writer->text + writer->length,
                        writer->size - writer->length, format, arguments);
  va_end(arguments);
}
