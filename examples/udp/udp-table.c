/* SPDX-License-Identifier: MIT */

/* An addition that finds no memory leaves a session without a table. */
#define HASH_NONFATAL_OOM 1

#include "udp-table.h"

#include <string.h>

#include <netinet/in.h>

/* uthash begins with 32 buckets and doubles them whenever they get crowded,
 * all at once: with 600,000 sessions that would be a turn of the loop of 55 ms,
 * twenty times as long as any other. These 16 MiB are room for a million. */
#undef HASH_INITIAL_NUM_BUCKETS
#undef HASH_INITIAL_NUM_BUCKETS_LOG2
#define HASH_INITIAL_NUM_BUCKETS (1u << HASH_INITIAL_NUM_BUCKETS_LOG2)
#define HASH_INITIAL_NUM_BUCKETS_LOG2 20u

int
udp_table_open(udp_table_t *table)
{
  table->head = NULL;
  table->keeper.key = (peer_key_t){.family = AF_UNSPEC};
  HASH_ADD(hh, table->head, key, sizeof(peer_key_t), &table->keeper);
  return table->head == NULL ? UV_ENOMEM : 0;
}

void
udp_table_close(udp_table_t *table)
{
  HASH_CLEAR(hh, table->head);
}

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

  HASH_FIND(hh, table->head, key, sizeof(*key), session);
  return session;
}

session_t *
udp_table_first(const udp_table_t *table)
{
  return table->keeper.hh.next;
}

int
udp_table_add(udp_table_t *table, session_t *session)
{
  HASH_ADD(hh, table->head, key, sizeof(session->key), session);
  return session->hh.tbl == NULL ? UV_ENOMEM : 0;
}

void
udp_table_remove(udp_table_t *table, session_t *session)
{
  HASH_DELETE(hh, table->head, session);
}
