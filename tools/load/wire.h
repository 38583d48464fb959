/* SPDX-License-Identifier: MIT */

/* One socket that speaks for a million peers. All of 127.0.0.0/8 is this
 * machine, so each peer gets an address of its own there, from 127.1.0.0 on
 * (127.0.x.y is left to servers). IP_PKTINFO says with each datagram which
 * address sends it, or received it. That, and many datagrams in one call, needs
 * Linux. */

#ifndef LOAD_WIRE_H
#define LOAD_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <netinet/in.h>
#include <sys/socket.h>

#define WIRE_BATCH 64
#define WIRE_DATAGRAM_MAX 64
#define WIRE_CONTROL_SIZE CMSG_SPACE(sizeof(struct in_pktinfo))

/* A datagram, and all that the kernel wants to know of it. */
typedef struct letter_s {
  struct sockaddr_in address;
  struct iovec part;
  char text[WIRE_DATAGRAM_MAX];
  _Alignas(struct cmsghdr) char control[WIRE_CONTROL_SIZE];
} letter_t;

typedef struct wire_s {
  int descriptor;
  struct sockaddr_in server;
  unsigned queued;
  unsigned room; /* datagrams that certainly fit into the socket    */
  letter_t letters[2][WIRE_BATCH];
  struct mmsghdr *headers[2]; /* 0: those to send, 1: those received */
} wire_t;

/* Called for each datagram that the server sent to a peer. */
typedef void (*wire_cb)(void *arg, uint32_t peer, const char *text,
                        size_t length);

/* Returns 0, or the negative error. */
int wire_open(wire_t *wire, const struct sockaddr_in *server);
void wire_close(wire_t *wire);

/* Sends a datagram of at most WIRE_DATAGRAM_MAX bytes in the name of a peer,
 * together with others, at the latest at wire_flush. What the kernel does not
 * take is lost as it could be on the way. Both return 0, or -ECONNREFUSED when
 * nobody listens there. */
int wire_send(wire_t *wire, uint32_t peer, const char *text, size_t length);
int wire_flush(wire_t *wire);

/* Hands out what has come, one batch at most. Returns how many datagrams that
 * were, strangers' included, or -ECONNREFUSED. */
int wire_receive(wire_t *wire, wire_cb cb, void *arg);

#endif /* LOAD_WIRE_H */
