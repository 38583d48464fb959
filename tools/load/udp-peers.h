/* SPDX-License-Identifier: MIT */

/* The peers of udp-load: each says one thing at a time, says it again until it
 * is answered, and checks the answer. */

#ifndef LOAD_UDP_PEERS_H
#define LOAD_UDP_PEERS_H

#include <stdint.h>

#include "../../examples/udp/udp-protocol.h"
#include "judge.h"
#include "wire.h"

#define UDP_TRAFFIC '!' /* the first byte of what is no question */

typedef struct peer_s peer_t;

struct peer_s {
  peer_t *prev, *next; /* among those that wait for an answer */
  uint64_t heard_ns;   /* see judge.h */
  uint64_t said_ns;    /* before the last thing was said for the first time */
  uint64_t tried_ns;   /* and when for the last time */
  uint32_t sequence;   /* of the last thing said     */
  uint32_t tries;      /* how often anything but a question was sent */
  uint32_t counted;    /* what the server counted of that; 0: not known */
  char waiting;        /* for the answer to what: '!', '?', or 0 */
};

typedef struct peers_s {
  peer_t *all;
  uint32_t total;
  wire_t wire;
  judge_t *judge;

  peer_t *waiting; /* the one that has tried longest ago comes first */
  uint32_t waiting_count;
  uint64_t patience_ns; /* after which an answer is lost */
  uint64_t retries;
  uint64_t repeated; /* answers to what had been answered */

  /* Called for each answer to a question: how many datagrams of this peer's
   * session the server has counted, 0: it has no session. */
  void (*on_told)(void *arg, peer_t *peer, uint64_t count, uint64_t now_ns);
  void *arg;
} peers_t;

/* The functions that use the network return 0, or a negative error:
 * -ECONNREFUSED when nobody listens there. */
int peers_open(peers_t *peers, uint32_t total,
               const struct sockaddr_in *server);
void peers_close(peers_t *peers);

/* Lets a peer that does not wait say something. What is said is sent at the
 * latest at wire_flush. */
int peers_say(peers_t *peers, peer_t *peer, char what, uint64_t now_ns);

/* Lets those that have waited for long try again, or give up. */
int peers_retry(peers_t *peers, uint64_t now_ns);

/* Takes in a batch of answers. Returns how many datagrams came. */
int peers_listen(peers_t *peers);

#endif /* LOAD_UDP_PEERS_H */
