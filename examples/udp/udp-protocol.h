/* SPDX-License-Identifier: MIT */

/* The datagrams between udp-sessions and udp-load.
 *
 * A datagram is anything. It is answered by the number of datagrams that its
 * session has sent so far, in decimal, a blank, and the datagram itself:
 *
 *   hello   ->   1 hello
 *   again   ->   2 again
 *   ?       ->   2 ?
 *   ... silence for longer than the timeout ...
 *   ?       ->   0 ?
 *   hello   ->   1 hello
 *
 * One that begins with a question mark only asks: it neither creates a session
 * nor refreshes one, and is not counted. So a peer can see from outside
 * whether its session lives, and whether it is still the same one. */

#ifndef EXAMPLES_UDP_PROTOCOL_H
#define EXAMPLES_UDP_PROTOCOL_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define UDP_QUESTION '?'

/* A 64-bit number, the blank, and the end of a string. */
#define UDP_COUNT_SIZE 22

/* Writes what precedes the datagram in its answer; returns how long it is. */
static inline size_t udp_write_count(char text[UDP_COUNT_SIZE],
                                     uint64_t count) {
  return (size_t)snprintf(text, UDP_COUNT_SIZE, "%" PRIu64 " ", count);
}

/* Reads it; returns how long it is, or 0 if this is no answer. */
static inline size_t udp_read_count(const char *answer, size_t length,
                                    uint64_t *count) {
  size_t i = 0;

  for (*count = 0; i < length && answer[i] >= '0' && answer[i] <= '9'; i++)
    *count = *count * 10 + (uint64_t)(answer[i] - '0');
  return i > 0 && i < length && answer[i] == ' ' ? i + 1 : 0;
}

#endif /* EXAMPLES_UDP_PROTOCOL_H */
