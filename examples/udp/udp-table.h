/* SPDX-License-Identifier: MIT */

/* The sessions of udp-sessions, found by their peer's address. */

#ifndef EXAMPLES_UDP_TABLE_H
#define EXAMPLES_UDP_TABLE_H

#include <stdint.h>

#include <sys/socket.h>
#include <uthash.h>

#include "../common/idle-timer.h"

/* A peer's address without what sockaddr has between and behind it: two of
 * them are the same when their bytes are. */
typedef struct peer_key_s {
  uint8_t address[16]; /* of IPv4: the first four */
  uint32_t scope;
  uint16_t family;
  uint16_t port;
} peer_key_t;

typedef struct session_s {
  UT_hash_handle hh;
  peer_key_t key;
  void *owner;        /* the server                        */
  uint64_t seen_ns;   /* when its last datagram was read   */
  uint64_t datagrams; /* how many there were               */
  /* The last member: no more of it is allocated than its kind uses. */
  idle_timer_t idle;
} session_t;

typedef struct udp_table_s {
  session_t *head;
  session_t keeper; /* no session, but without any the table would go */
} udp_table_t;

/* Makes an empty table with room for a million sessions. Returns 0, or
 * UV_ENOMEM. */
int udp_table_open(udp_table_t *table);

/* Frees it; sessions that are still in it are the caller's. */
void udp_table_close(udp_table_t *table);

peer_key_t udp_key(const struct sockaddr *peer);

/* The session of this peer, or NULL. */
session_t *udp_table_find(const udp_table_t *table, const peer_key_t *key);

/* The oldest of all sessions, or NULL. */
session_t *udp_table_first(const udp_table_t *table);

/* Adds a session whose key is set. Returns 0, or UV_ENOMEM. */
int udp_table_add(udp_table_t *table, session_t *session);

void udp_table_remove(udp_table_t *table, session_t *session);

#endif /* EXAMPLES_UDP_TABLE_H */
