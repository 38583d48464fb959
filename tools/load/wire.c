/* SPDX-License-Identifier: MIT */

/* recvmmsg, sendmmsg, struct in_pktinfo: */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl*) */

#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#define FIRST_PEER (INADDR_LOOPBACK - 1 + (1 << 16))

#define RECEIVE_BUFFER (4 << 20) /* as that of udp-sessions */

/* A small datagram takes up to 1.3 KB of a socket's buffer; beyond 512 on
 * their way, more of them bring no more speed. */
#define DATAGRAM_ROOM 4096
#define MIN_ROOM 16
#define MAX_ROOM 512

/* ---- Open and close ----------------------------------------------------- */

/* The letters do not move: what points to them is written once. */
static struct mmsghdr *
new_headers(letter_t *letters)
{
  struct mmsghdr *headers = calloc(WIRE_BATCH, sizeof(*headers));

  for (unsigned i = 0; headers != NULL && i < WIRE_BATCH; i++) {
    letters[i].part.iov_base = letters[i].text;
    letters[i].part.iov_len = WIRE_DATAGRAM_MAX;
    headers[i].msg_hdr =
        (struct msghdr){.msg_name = &letters[i].address,
                        .msg_namelen = sizeof(struct sockaddr_in),
                        .msg_iov = &letters[i].part,
                        .msg_iovlen = 1,
                        .msg_control = letters[i].control,
                        .msg_controllen = WIRE_CONTROL_SIZE};
  }
  return headers;
}

static unsigned
measure_room(int descriptor)
{
  int bytes = RECEIVE_BUFFER;
  socklen_t size = sizeof(bytes);

  setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, size);
  getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, &size);
  unsigned room = (unsigned)bytes / DATAGRAM_ROOM;
  if (room < MIN_ROOM)
    return MIN_ROOM;
  return room < MAX_ROOM ? room : MAX_ROOM;
}

int
wire_open(wire_t *wire, const struct sockaddr_in *server)
{
  struct sockaddr_in any = {.sin_family = AF_INET};
  int on = 1;

  wire->server = *server;
  wire->queued = 0;
  wire->headers[0] = new_headers(wire->letters[0]);
  wire->headers[1] = new_headers(wire->letters[1]);
  wire->descriptor =
      socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  /* IP_RECVERR: otherwise a closed port would not be reported. */
  if (wire->headers[0] == NULL || wire->headers[1] == NULL ||
      wire->descriptor < 0 ||
      setsockopt(wire->descriptor, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) ||
      setsockopt(wire->descriptor, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)) ||
      bind(wire->descriptor, (struct sockaddr *)&any, sizeof(any)))
    return -errno;
  wire->room = measure_room(wire->descriptor);
  return 0;
}

void
wire_close(wire_t *wire)
{
  free(wire->headers[0]);
  free(wire->headers[1]);
  if (wire->descriptor >= 0)
    close(wire->descriptor);
}

/* ---- Send --------------------------------------------------------------- */

int
wire_flush(wire_t *wire)
{
  unsigned queued = wire->queued;

  wire->queued = 0;
  for (unsigned done = 0; done < queued;) {
    int sent =
        sendmmsg(wire->descriptor, wire->headers[0] + done, queued - done, 0);
    if (sent > 0)
      done += (unsigned)sent;
    else if (errno == ECONNREFUSED)
      return -ECONNREFUSED;
    else if (errno != EINTR)
      break; /* no room there: they are lost */
  }
  return 0;
}

int
wire_send(wire_t *wire, uint32_t peer, const char *text, size_t length)
{
  letter_t *letter = &wire->letters[0][wire->queued];
  struct in_pktinfo info = {.ipi_spec_dst.s_addr = htonl(FIRST_PEER + peer)};
  struct cmsghdr control = {.cmsg_level = IPPROTO_IP,
                            .cmsg_type = IP_PKTINFO,
                            .cmsg_len = CMSG_LEN(sizeof(info))};

  letter->address = wire->server;
  letter->part.iov_len = length;
  memcpy(letter->text, text, length);
  memcpy(letter->control, &control, sizeof(control));
  memcpy(letter->control + CMSG_LEN(0), &info, sizeof(info));
  wire->queued++;
  return wire->queued == WIRE_BATCH ? wire_flush(wire) : 0;
}

/* ---- Receive ------------------------------------------------------------ */

/* The address that a datagram came to, or 0. */
static in_addr_t
destination_of(struct msghdr *header)
{
  struct cmsghdr *control = CMSG_FIRSTHDR(header);
  struct in_pktinfo info;

  if (control == NULL || control->cmsg_level != IPPROTO_IP ||
      control->cmsg_type != IP_PKTINFO)
    return 0;
  memcpy(&info, CMSG_DATA(control), sizeof(info));
  return ntohl(info.ipi_addr.s_addr);
}

static int
is_from_server(const wire_t *wire, const struct sockaddr_in *sender)
{
  return sender->sin_addr.s_addr == wire->server.sin_addr.s_addr &&
         sender->sin_port == wire->server.sin_port;
}

int
wire_receive(wire_t *wire, wire_cb cb, void *arg)
{
  struct mmsghdr *headers = wire->headers[1];
  int received;

  for (unsigned i = 0; i < WIRE_BATCH; i++) {
    headers[i].msg_hdr.msg_namelen = sizeof(struct sockaddr_in);
    headers[i].msg_hdr.msg_controllen = WIRE_CONTROL_SIZE;
  }
  do
    received = recvmmsg(wire->descriptor, headers, WIRE_BATCH, 0, NULL);
  while (received < 0 && errno == EINTR);
  if (received < 0)
    return errno == ECONNREFUSED ? -ECONNREFUSED : 0;
  for (int i = 0; i < received; i++) {
    const letter_t *letter = &wire->letters[1][i];
    in_addr_t peer = destination_of(&headers[i].msg_hdr);
    if (peer >= FIRST_PEER && is_from_server(wire, &letter->address))
      cb(arg, peer - FIRST_PEER, letter->text, headers[i].msg_len);
  }
  return received;
}
