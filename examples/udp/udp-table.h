/* SPDX-License-Identifier: MIT */

/* A table of peers, found by their address. NULL is an empty one. */

#ifndef EXAMPLES_UDP_TABLE_H
#define EXAMPLES_UDP_TABLE_H

#include <stdint.h>

#include <sys/socket.h>
#include <uthash.h>

/* A peer's address without what sockaddr has between and behind it: two of
 * them are the same when their bytes are. */
typedef struct udp_key_s {
  uint8_t address[16]; /* of IPv4: the first four */
  uint32_t scope;
  uint16_t family;
  uint16_t port;
} udp_key_t;

typedef struct udp_peer_s {
  UT_hash_handle hh;
  udp_key_t key;
} udp_peer_t;

udp_key_t udp_key(const struct sockaddr *address);

/* The peer with this key, or NULL. */
udp_peer_t *udp_find(udp_peer_t *table, const udp_key_t *key);

/* Adds a peer whose key is set. Returns 0, or UV_ENOMEM. */
int udp_add(udp_peer_t **table, udp_peer_t *peer);

void udp_remove(udp_peer_t **table, udp_peer_t *peer);

#endif /* EXAMPLES_UDP_TABLE_H */
