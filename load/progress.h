/* SPDX-License-Identifier: MIT */

/* How far a load has come, on stderr: a bar that is drawn over and over on a
 * terminal, else a line from time to time. */

#ifndef LOAD_PROGRESS_H
#define LOAD_PROGRESS_H

#include <stdint.h>

typedef struct progress_s {
  int on_terminal;
  uint64_t shown_ns;
} progress_t;

void progress_begin(progress_t *progress, uint64_t now_ns);

/* Is it time to show something? If so it has to follow. */
int progress_is_due(progress_t *progress, uint64_t now_ns);

/* Shows this share, 0 to 1, of a phase, and what printf makes of the rest. */
__attribute__((format(printf, 4, 5))) void
progress_show(const progress_t *progress, const char *phase, double share,
              const char *format, ...);

/* Leaves the terminal's line empty. */
void progress_end(const progress_t *progress);

#endif /* LOAD_PROGRESS_H */
