/* SPDX-License-Identifier: MIT */

#include "watch.h"

#define EARLIER_NS (100 * NS_PER_MS)

void
watch_consider(watch_t *watch, peer_t *peer, uint32_t n, uint32_t silent)
{
  uint64_t sample = silent < WATCHED_MAX ? silent : WATCHED_MAX;

  if (n * sample / silent != (n + 1) * sample / silent)
    watch->watched[watch->count++] = peer;
}

/* The last one takes the place of the one that is gone. */
static void
forget(watch_t *watch, uint32_t index)
{
  watch->count--;
  watch->watched[index] = watch->watched[watch->count];
}

int
watch_ask(watch_t *watch, uint64_t now_ns)
{
  judge_t *judge = watch->peers->judge;
  uint64_t overdue_ns =
      judge->timeout_ns + judge_allowed_ns(judge) + watch->peers->patience_ns;
  int error = 0;

  for (uint32_t i = 0; i < watch->count && error == 0; i++) {
    peer_t *peer = watch->watched[i];
    uint64_t idle_ns = now_ns - peer->heard_ns;
    if (peer->said_ns == 0 || peer->waiting != 0)
      continue;
    if (peer->heard_ns == 0) {
      forget(watch, i--); /* its hello was lost */
    } else if (idle_ns + EARLIER_NS < judge->timeout_ns) {
      continue;
    } else if (idle_ns > overdue_ns) {
      judge->missing++;
      forget(watch, i--);
    } else {
      error = peers_say(watch->peers, peer, UDP_QUESTION, now_ns);
    }
  }
  return error;
}

void
watch_told(watch_t *watch, peer_t *peer, uint64_t count, uint64_t now_ns)
{
  uint32_t i = 0;

  if (count != 0)
    return;
  while (watch->watched[i] != peer)
    i++;
  closed_t closed = {.heard_ns = peer->heard_ns, .closed_ns = now_ns};
  judge_closed(watch->peers->judge, &closed);
  forget(watch, i);
}
