/* SPDX-License-Identifier: MIT */

/* An addition that finds no memory leaves a session without a table. */
#define HASH_NONFATAL_OOM 1

#include "udp-table.h"

#include <string.h>

#include <netinet/in.h>

peer_key_t
udp_key(const struct sockaddr *peer)
{
  peer_key_t key = {.family = peer->sa_family};

  if (peer->sa_family == AF_INET6) {
    const struct sockaddr_in6 *ip6 = (const struct sockaddr_in6 *)peer;
    memcpy(key.address, &ip6->sin6_addr, sizeof(ip6->sin6_addr));
    key.scope = ip6->sin6_scope_id;
    key.port = ip6->sin6_port;
  } else {
    const struct sockaddr_in *ip4 = (const struct sockaddr_in *)peer;
    memcpy(key.address, &ip4->sin_addr, sizeof(ip4->sin_addr));
    key.port = ip4->sin_port;
  }
  return key;
}

session_t *
udp_table_find(const udp_table_t *table, const peer_key_t *key)
{
  session_t *session;

  HASH_FIND(hh, table->first, key, sizeof(*key), session);
  return session;
}

int
udp_table_add(udp_table_t *table, session_t *session)
{
  HASH_ADD(hh, table->first, key, sizeof(session->key), session);
  return session->hh.tbl == NULL ? UV_ENOMEM : 0;
}

void
udp_table_remove(udp_table_t *table, session_t *session)
{
  HASH_DELETE(hh, table->first, session);
}
