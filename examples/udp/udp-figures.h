/* SPDX-License-Identifier: MIT */

/* The figures of udp-sessions, counted and measured in the same way for each
 * kind of timer: nothing here comes from the wheel. */

#ifndef EXAMPLES_UDP_FIGURES_H
#define EXAMPLES_UDP_FIGURES_H

#include <stddef.h>
#include <stdint.h>

#include "../common/usage.h"

typedef struct udp_figures_s {
  const char *timer;    /* the kind                                     */
  size_t timer_bytes;   /* of one                                       */
  size_t session_bytes; /* of one session, its timer included */

  uint64_t sessions;  /* now                                          */
  uint64_t peak;      /* the most that there were at once             */
  uint64_t created;   /* by a first datagram                          */
  uint64_t refreshes; /* by a later one                               */
  uint64_t questions; /* datagrams that only asked                    */
  uint64_t refused;   /* first datagrams that no session was made for */
  uint64_t unsent;    /* answers that the kernel did not take         */
  uint64_t expired;

  uint64_t first_rss_kib; /* resident memory before the first session */
  iterations_t iterations;
} udp_figures_t;

void udp_figures_created(udp_figures_t *figures);

/* One line "title key=value ..." on stdout. */
void udp_figures_print(const udp_figures_t *figures, const char *title);

#endif /* EXAMPLES_UDP_FIGURES_H */
