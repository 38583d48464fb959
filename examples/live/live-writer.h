/* SPDX-License-Identifier: MIT */

/* Text into memory that is large enough for it. */

#ifndef EXAMPLES_LIVE_WRITER_H
#define EXAMPLES_LIVE_WRITER_H

#include <stddef.h>

typedef struct live_writer_s {
  char *text;
  size_t size;
  size_t length; /* written so far */
} live_writer_t;

__attribute__((format(printf, 2, 3))) void live_put(live_writer_t *writer,
                                                    const char *format, ...);

#endif /* EXAMPLES_LIVE_WRITER_H */
