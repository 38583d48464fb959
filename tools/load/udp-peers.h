/* SPDX-License-Identifier: MIT */

/* The peers of udp-load: each says one thing at a time, says it again until it
 * is answered, and checks the answer.
 *
 * One socket speaks for a million peers. All of 127.0.0.0/8 is this machine, so
 * each peer gets an address of its own there, from 127.1.0.0 on (127.0.x.y is
 * left to servers). IP_PKTINFO says with each datagram which address sends it,
 * or received it. That, and many datagrams in one call, needs Linux. */

#ifndef LOAD_UDP_PEERS_H
#define LOAD_UDP_PEERS_H

#include <stdint.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include "../../examples/udp/udp-protocol.h"
#include "judge.h"

#define UDP_TRAFFIC '!' /* the first byte of what is no question */
#define UDP_BATCH 64    /* datagrams in one call */

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

/* A datagram, and all that the kernel wants to know of it. */
typedef struct letter_s {
  struct sockaddr_in address;
  struct iovec part;
  char text[64];
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in_pktinfo))];
} letter_t;

/* Those to send, or those received. */
typedef struct letters_s {
  letter_t all[UDP_BATCH];
  struct mmsghdr headers[UDP_BATCH];
} letters_t;

typedef struct peers_s {
  peer_t *all;
  uint32_t total;
  judge_t *judge;

  int descriptor;
  struct sockaddr_in server;
  unsigned room; /* datagrams that certainly fit into the socket */
  unsigned queued;
  letters_t sent, received;

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

/* Lets a peer that does not wait say something. What is said is sent together
 * with others, at the latest at peers_flush. What the kernel does not take is
 * lost as it could be on the way. */
int peers_say(peers_t *peers, peer_t *peer, char what, uint64_t now_ns);
int peers_flush(peers_t *peers);

/* Lets those that have waited for long try again, or give up. */
int peers_retry(peers_t *peers, uint64_t now_ns);

/* Takes in a batch of answers. Returns how many datagrams came, strangers'
 * included. */
int peers_listen(peers_t *peers);

#endif /* LOAD_UDP_PEERS_H */
