/* SPDX-License-Identifier: MIT */

#include "udp-peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>
#include <uv.h>

#define RETRY_NS (500 * NS_PER_MS)

/* A peer's datagram: '!' or '?', its number, and how many it has sent. */
#define SAYING_SIZE (1 + 2 * sizeof(uint32_t))

int
peers_open(peers_t *peers, uint32_t total, const struct sockaddr_in *server)
{
  peers->total = total;
  peers->all = calloc(total, sizeof(*peers->all));
  return peers->all == NULL ? -ENOMEM : wire_open(&peers->wire, server);
}

void
peers_close(peers_t *peers)
{
  wire_close(&peers->wire);
  free(peers->all);
}

/* ---- Say ---------------------------------------------------------------- */

static uint32_t
number_of(const peers_t *peers, const peer_t *peer)
{
  return (uint32_t)(peer - peers->all);
}

static void
write_saying(char saying[SAYING_SIZE], char what, uint32_t peer,
             uint32_t sequence)
{
  saying[0] = what;
  memcpy(saying + 1, &peer, sizeof(peer));
  memcpy(saying + 1 + sizeof(peer), &sequence, sizeof(sequence));
}

static int
try_to_say(peers_t *peers, peer_t *peer, uint64_t now_ns)
{
  uint32_t number = number_of(peers, peer);
  char saying[SAYING_SIZE];

  write_saying(saying, peer->waiting, number, peer->sequence);
  peer->tries += peer->waiting == UDP_TRAFFIC;
  peer->tried_ns = now_ns;
  DL_APPEND(peers->waiting, peer);
  return wire_send(&peers->wire, number, saying, sizeof(saying));
}

int
peers_say(peers_t *peers, peer_t *peer, char what, uint64_t now_ns)
{
  peer->waiting = what;
  peer->sequence++;
  peer->said_ns = now_ns;
  peers->waiting_count++;
  return try_to_say(peers, peer, now_ns);
}

static void
stop_waiting(peers_t *peers, peer_t *peer)
{
  DL_DELETE(peers->waiting, peer);
  peers->waiting_count--;
  peer->waiting = 0;
}

int
peers_retry(peers_t *peers, uint64_t now_ns)
{
  int error = 0;

  while (error == 0 && peers->waiting != NULL &&
         now_ns - peers->waiting->tried_ns > RETRY_NS) {
    peer_t *peer = peers->waiting;
    if (now_ns - peer->said_ns > peers->patience_ns) {
      stop_waiting(peers, peer);
      peers->judge->lost++;
    } else {
      DL_DELETE(peers->waiting, peer);
      peers->retries++;
      error = try_to_say(peers, peer, now_ns);
    }
  }
  return error;
}

/* ---- Listen ------------------------------------------------------------- */

/* A datagram that was sent again may be answered more than once, and the second
 * answer may come while the next one is awaited. Any other answer that comes
 * unasked is wrong. */
static void
take_repeated(peers_t *peers)
{
  peers->repeated++;
  if (peers->repeated > peers->retries)
    peers->judge->garbled++;
}

/* The session's count goes on, or the server has begun a new one since. */
static void
take_count(peers_t *peers, peer_t *peer, uint64_t count, uint64_t now_ns)
{
  if (count == 0 || count > peer->tries) {
    peers->judge->garbled++;
  } else if (count <= peer->counted) {
    closed_t closed = {
        .chatty = 1, .heard_ns = peer->heard_ns, .closed_ns = now_ns};
    judge_closed(peers->judge, &closed);
  }
  peer->counted = (uint32_t)count;
  peer->heard_ns = peer->said_ns;
}

static void
on_awaited_answer(peers_t *peers, peer_t *peer, uint64_t count)
{
  uint64_t now_ns = uv_hrtime();
  char what = peer->waiting;

  stop_waiting(peers, peer);
  judge_echo(peers->judge, peer->said_ns, now_ns);
  if (what == UDP_QUESTION)
    peers->on_told(peers->arg, peer, count, now_ns);
  else
    take_count(peers, peer, count, now_ns);
}

static void
on_answer(void *arg, uint32_t number, const char *text, size_t length)
{
  peers_t *peers = arg;
  char saying[SAYING_SIZE];
  uint32_t sequence;
  uint64_t count;
  size_t head = udp_read_count(text, length, &count);

  if (number >= peers->total || head == 0 || length - head != SAYING_SIZE) {
    peers->judge->garbled++;
    return;
  }
  peer_t *peer = &peers->all[number];
  memcpy(&sequence, text + length - sizeof(sequence), sizeof(sequence));
  int awaited = peer->waiting != 0 && sequence == peer->sequence;
  write_saying(saying, awaited ? peer->waiting : text[head], number, sequence);
  if (sequence > peer->sequence ||
      memcmp(saying, text + head, SAYING_SIZE) != 0)
    peers->judge->garbled++;
  else if (awaited)
    on_awaited_answer(peers, peer, count);
  else
    take_repeated(peers);
}

int
peers_listen(peers_t *peers)
{
  return wire_receive(&peers->wire, on_answer, peers);
}
