/* SPDX-License-Identifier: MIT */

#if defined(__linux__) /* sendmmsg: */
#define _GNU_SOURCE    /* NOLINT(bugprone-reserved-identifier,cert-dcl*) */
#endif

#include "udp-answers.h"

#include <errno.h>
#include <string.h>

static socklen_t
address_size(const struct sockaddr *address)
{
  return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                        : sizeof(struct sockaddr_in);
}

void
udp_answer(udp_answers_t *answers, const struct sockaddr *peer, uint64_t count,
           const uv_buf_t *datagram)
{
  udp_answer_t *answer = &answers->waiting[answers->count++];

  memcpy(&answer->peer, peer, address_size(peer));
  size_t length = udp_write_count(answer->head, count);
  answer->parts[0] = uv_buf_init(answer->head, (unsigned)length);
  answer->parts[1] = *datagram;
}

#if defined(__linux__)

unsigned
udp_answers_send(udp_answers_t *answers, uv_udp_t *socket)
{
  struct mmsghdr headers[UDP_BATCH];
  unsigned done = 0, unsent = 0;
  uv_os_fd_t descriptor;

  for (unsigned i = 0; i < answers->count; i++) {
    udp_answer_t *answer = &answers->waiting[i];
    headers[i].msg_hdr = (struct msghdr){
        .msg_name = &answer->peer,
        .msg_namelen = address_size(&answer->peer.any),
        .msg_iov = (struct iovec *)answer->parts, /* as libuv itself does */
        .msg_iovlen = 2,
    };
  }
  uv_fileno((const uv_handle_t *)socket, &descriptor);
  while (done < answers->count) {
    int sent = sendmmsg(descriptor, headers + done, answers->count - done, 0);
    if (sent > 0) {
      done += (unsigned)sent;
    } else if (errno != EINTR) {
      done++; /* it was the first of them that could not be sent */
      unsent++;
    }
  }
  answers->count = 0;
  return unsent;
}

#else

unsigned
udp_answers_send(udp_answers_t *answers, uv_udp_t *socket)
{
  unsigned unsent = 0;

  for (unsigned i = 0; i < answers->count; i++) {
    udp_answer_t *answer = &answers->waiting[i];
    unsent += uv_udp_try_send(socket, answer->parts, 2, &answer->peer.any) < 0;
  }
  answers->count = 0;
  return unsent;
}

#endif
