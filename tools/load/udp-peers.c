/* SPDX-License-Identifier: MIT */

#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl*) */

#include "udp-peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>
#include <utlist.h>
#include <uv.h>

#define RETRY_NS (500 * NS_PER_MS)

#define FIRST_PEER (INADDR_LOOPBACK - 1 + (1 << 16))

#define RECEIVE_BUFFER (4 << 20) /* as that of udp-sessions */

/* A small datagram takes up to 1.3 KB of a socket's buffer; beyond 512 on
 * their way, more of them bring no more speed. */
#define DATAGRAM_ROOM 4096
#define MIN_ROOM 16
#define MAX_ROOM 512

/* A peer's datagram: '!' or '?', its number, and how many it has sent. */
#define SAYING_SIZE (1 + 2 * sizeof(uint32_t))

/* ---- Open and close ----------------------------------------------------- */

/* The letters do not move: what points to them is written once. */
static void address_letters(letters_t *letters) {
  for (unsigned i = 0; i < UDP_BATCH; i++) {
    letter_t *letter = &letters->all[i];
    letter->part = (struct iovec){letter->text, sizeof(letter->text)};
    letters->headers[i].msg_hdr =
        (struct msghdr){.msg_name = &letter->address,
                        .msg_namelen = sizeof(letter->address),
                        .msg_iov = &letter->part,
                        .msg_iovlen = 1,
                        .msg_control = letter->control,
                        .msg_controllen = sizeof(letter->control)};
  }
}

static unsigned measure_room(int descriptor) {
  int bytes = RECEIVE_BUFFER;
  socklen_t size = sizeof(bytes);

  setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, size);
  getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, &size);
  unsigned room = (unsigned)bytes / DATAGRAM_ROOM;
  if (room < MIN_ROOM)
    return MIN_ROOM;
  return room < MAX_ROOM ? room : MAX_ROOM;
}

/* IP_RECVERR: otherwise a closed port would not be reported. */
int peers_open(peers_t *peers, uint32_t total,
               const struct sockaddr_in *server) {
  struct sockaddr_in any = {.sin_family = AF_INET};
  int on = 1;

  peers->server = *server;
  peers->total = total;
  peers->all = calloc(total, sizeof(*peers->all));
  address_letters(&peers->sent);
  address_letters(&peers->received);
  int descriptor = peers->descriptor =
      socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (peers->all == NULL || descriptor < 0 ||
      setsockopt(descriptor, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) != 0 ||
      setsockopt(descriptor, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)) != 0 ||
      bind(descriptor, (struct sockaddr *)&any, sizeof(any)) != 0)
    return -errno;
  peers->room = measure_room(descriptor);
  return 0;
}

void peers_close(peers_t *peers) {
  close(peers->descriptor);
  free(peers->all);
}

/* ---- Say ---------------------------------------------------------------- */

int peers_flush(peers_t *peers) {
  unsigned queued = peers->queued;

  peers->queued = 0;
  for (unsigned done = 0; done < queued;) {
    int sent = sendmmsg(peers->descriptor, peers->sent.headers + done,
                        queued - done, 0);
    if (sent > 0)
      done += (unsigned)sent;
    else if (errno == ECONNREFUSED)
      return -ECONNREFUSED;
    else if (errno != EINTR)
      break; /* no room there: they are lost */
  }
  return 0;
}

static int send_for(peers_t *peers, uint32_t peer, const char *text,
                    size_t length) {
  letter_t *letter = &peers->sent.all[peers->queued];
  struct in_pktinfo info = {.ipi_spec_dst.s_addr = htonl(FIRST_PEER + peer)};
  struct cmsghdr control = {.cmsg_level = IPPROTO_IP,
                            .cmsg_type = IP_PKTINFO,
                            .cmsg_len = CMSG_LEN(sizeof(info))};

  letter->address = peers->server;
  letter->part.iov_len = length;
  memcpy(letter->text, text, length);
  memcpy(letter->control, &control, sizeof(control));
  memcpy(letter->control + CMSG_LEN(0), &info, sizeof(info));
  peers->queued++;
  return peers->queued == UDP_BATCH ? peers_flush(peers) : 0;
}

static uint32_t number_of(const peers_t *peers, const peer_t *peer) {
  return (uint32_t)(peer - peers->all);
}

static void write_saying(char saying[SAYING_SIZE], char what, uint32_t peer,
                         uint32_t sequence) {
  saying[0] = what;
  memcpy(saying + 1, &peer, sizeof(peer));
  memcpy(saying + 1 + sizeof(peer), &sequence, sizeof(sequence));
}

static int try_to_say(peers_t *peers, peer_t *peer, uint64_t now_ns) {
  uint32_t number = number_of(peers, peer);
  char saying[SAYING_SIZE];

  write_saying(saying, peer->waiting, number, peer->sequence);
  peer->tries += peer->waiting == UDP_TRAFFIC;
  peer->tried_ns = now_ns;
  DL_APPEND(peers->waiting, peer);
  return send_for(peers, number, saying, sizeof(saying));
}

int peers_say(peers_t *peers, peer_t *peer, char what, uint64_t now_ns) {
  peer->waiting = what;
  peer->sequence++;
  peer->said_ns = now_ns;
  peers->waiting_count++;
  return try_to_say(peers, peer, now_ns);
}

static void stop_waiting(peers_t *peers, peer_t *peer) {
  DL_DELETE(peers->waiting, peer);
  peers->waiting_count--;
  peer->waiting = 0;
}

int peers_retry(peers_t *peers, uint64_t now_ns) {
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
static void take_repeated(peers_t *peers) {
  peers->repeated++;
  if (peers->repeated > peers->retries)
    peers->judge->garbled++;
}

/* The session's count goes on, or the server has begun a new one since. */
static void take_count(peers_t *peers, peer_t *peer, uint64_t count,
                       uint64_t now_ns) {
  if (count == 0 || count > peer->tries)
    peers->judge->garbled++;
  else if (count <= peer->counted)
    judge_closed(peers->judge, 1, 0, peer->heard_ns, now_ns);
  peer->counted = (uint32_t)count;
  peer->heard_ns = peer->said_ns;
}

static void on_awaited_answer(peers_t *peers, peer_t *peer, uint64_t count) {
  uint64_t now_ns = uv_hrtime();
  char what = peer->waiting;

  stop_waiting(peers, peer);
  judge_echo(peers->judge, peer->said_ns, now_ns);
  if (what == UDP_QUESTION)
    peers->on_told(peers->arg, peer, count, now_ns);
  else
    take_count(peers, peer, count, now_ns);
}

static void on_answer(peers_t *peers, uint32_t number, const char *text,
                      size_t length) {
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

/* The address that a datagram came to, or 0. */
static in_addr_t destination_of(struct msghdr *header) {
  struct cmsghdr *control = CMSG_FIRSTHDR(header);
  struct in_pktinfo info;

  if (control == NULL || control->cmsg_level != IPPROTO_IP ||
      control->cmsg_type != IP_PKTINFO)
    return 0;
  memcpy(&info, CMSG_DATA(control), sizeof(info));
  return ntohl(info.ipi_addr.s_addr);
}

int peers_listen(peers_t *peers) {
  struct mmsghdr *headers = peers->received.headers;
  const struct sockaddr_in *server = &peers->server;
  int received;

  for (unsigned i = 0; i < UDP_BATCH; i++) {
    headers[i].msg_hdr.msg_namelen = sizeof(struct sockaddr_in);
    headers[i].msg_hdr.msg_controllen = sizeof(peers->received.all->control);
  }
  do
    received = recvmmsg(peers->descriptor, headers, UDP_BATCH, 0, NULL);
  while (received < 0 && errno == EINTR);
  if (received < 0)
    return errno == ECONNREFUSED ? -ECONNREFUSED : 0;
  for (int i = 0; i < received; i++) {
    const letter_t *letter = &peers->received.all[i];
    in_addr_t peer = destination_of(&headers[i].msg_hdr);
    if (peer >= FIRST_PEER && letter->address.sin_port == server->sin_port &&
        letter->address.sin_addr.s_addr == server->sin_addr.s_addr)
      on_answer(peers, peer - FIRST_PEER, letter->text, headers[i].msg_len);
  }
  return received;
}
