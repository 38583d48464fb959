/* SPDX-License-Identifier: MIT */

/* The watch over some silent peers of udp-load: does the server forget them
 * when it should?
 *
 * A UDP peer is not told that its session is gone, but it may ask, and its
 * question refreshes nothing. So a sample of the silent peers, spread evenly
 * over all of them, asks every 10 ms from shortly before the timeout until the
 * answer is that there is no session. judge.h judges that moment like the close
 * of a connection: never wrongly, as the peer's clock starts before its last
 * datagram is sent and stops after the answer has come. */

#ifndef LOAD_WATCH_H
#define LOAD_WATCH_H

#include <stdint.h>

#include "udp-peers.h"

#define WATCHED_MAX 1000

typedef struct watch_s {
  peers_t *peers;
  peer_t *watched[WATCHED_MAX];
  uint32_t count; /* those that the server may still know */
} watch_t;

/* Begins to watch the n-th of the silent peers, if it is in the sample. */
void watch_consider(watch_t *watch, peer_t *peer, uint32_t n, uint32_t silent);

/* Asks for those whose time has come. Returns 0, or a negative error. */
int watch_ask(watch_t *watch, uint64_t now_ns);

/* Takes the answer. */
void watch_told(watch_t *watch, peer_t *peer, uint64_t count, uint64_t now_ns);

#endif /* LOAD_WATCH_H */
