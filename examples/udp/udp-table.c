/* SPDX-License-Identifier: MIT */

/* An addition that finds no memory leaves a peer without a table. */
#define HASH_NONFATAL_OOM 1

#include "udp-table.h"

#include <string.h>

#include <netinet/in.h>
#include <uv.h>

/* uthash begins with 32 buckets and doubles them whenever they get crowded,
 * all at once: with 600,000 sessions that would be an iteration of the loop of
 * 55 ms, twenty times as long as any other. 16 MiB are room for a million. */
#undef HASH_INITIAL_NUM_BUCKETS
#undef HASH_INITIAL_NUM_BUCKETS_LOG2
#define HASH_INITIAL_NUM_BUCKETS (1u << HASH_INITIAL_NUM_BUCKETS_LOG2)
#define HASH_INITIAL_NUM_BUCKETS_LOG2 20u

udp_key_t udp_key(const struct sockaddr *address) {
  udp_key_t key = {.family = address->sa_family};

  if (address->sa_family == AF_INET6) {
    const struct sockaddr_in6 *ip6 = (const struct sockaddr_in6 *)address;
    memcpy(key.address, &ip6->sin6_addr, sizeof(ip6->sin6_addr));
    key.scope = ip6->sin6_scope_id;
    key.port = ip6->sin6_port;
  } else {
    const struct sockaddr_in *ip4 = (const struct sockaddr_in *)address;
    memcpy(key.address, &ip4->sin_addr, sizeof(ip4->sin_addr));
    key.port = ip4->sin_port;
  }
  return key;
}

udp_peer_t *udp_find(udp_peer_t *table, const udp_key_t *key) {
  udp_peer_t *peer;

  HASH_FIND(hh, table, key, sizeof(*key), peer);
  return peer;
}

int udp_add(udp_peer_t **table, udp_peer_t *peer) {
  HASH_ADD(hh, *table, key, sizeof(peer->key), peer);
  return peer->hh.tbl == NULL ? UV_ENOMEM : 0;
}

void udp_remove(udp_peer_t **table, udp_peer_t *peer) {
  HASH_DELETE(hh, *table, peer);
}
