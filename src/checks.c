/* SPDX-License-Identifier: MIT */

/* A -Dchecks=true build tells of misuse that is undefined elsewhere, with the
 * timer it concerns, and aborts. In other builds this file is empty. */

#include "binding.h"

#ifdef UVWHEEL_CHECKS

#include <inttypes.h>
#include <stdlib.h>

void
uvwheel__misuse(const uvwheel_core_t *core, const uvwheel_entry_t *entry,
                const char *what)
{
  fprintf(stderr, "uvwheel: wheel %p, hand at tick %" PRIu64,
          (const void *)core, core->hand);
  if (entry != NULL)
    fprintf(stderr, ", timer %p, due at %" PRIu64 " ms, tick %" PRIu64,
            (const void *)entry, entry->due_ms,
            tick_after(core, entry->due_ms));
  fprintf(stderr, ": %s\n", what);
  abort();
}

/* All wheels that are not closed, so that what looks like a pointer to a wheel
 * can be told from what is one. */
static uvwheel_t *wheels;
static uv_mutex_t wheels_mutex;
static uv_once_t wheels_once = UV_ONCE_INIT;

static void
make_mutex(void)
{
  if (uv_mutex_init(&wheels_mutex) != 0)
    abort();
}

void
uvwheel__check_in(uvwheel_t *wheel)
{
  const uvwheel_t *other;

  uv_once(&wheels_once, make_mutex);
  uv_mutex_lock(&wheels_mutex);
  for (other = wheels; other != NULL; other = other->next)
    CHECK(other != wheel, &wheel->core, NULL, "initialised while not closed");
  wheel->next = wheels;
  wheels = wheel;
  uv_mutex_unlock(&wheels_mutex);
}

void
uvwheel__check_out(uvwheel_t *wheel)
{
  uvwheel_t **link = &wheels;

  uv_mutex_lock(&wheels_mutex);
  while (*link != wheel)
    link = &(*link)->next;
  *link = wheel->next;
  uv_mutex_unlock(&wheels_mutex);
}

void
uvwheel__adopt_thread(uvwheel_t *wheel)
{
  uv_thread_t self = uv_thread_self();

  if (wheel->has_thread && uv_thread_equal(&wheel->thread, &self))
    return;
  uv_mutex_lock(&wheels_mutex); /* find_wheel reads them on any thread */
  wheel->thread = self;
  wheel->has_thread = 1;
  uv_mutex_unlock(&wheels_mutex);
}

void
uvwheel__check_thread(uvwheel_t *wheel, const uvwheel_timer_t *timer)
{
  uv_thread_t self = uv_thread_self();

  if (!wheel->has_thread)
    uvwheel__adopt_thread(wheel);
  CHECK(uv_thread_equal(&wheel->thread, &self), &wheel->core,
        timer == NULL ? NULL : &timer->entry,
        "used on another thread than the wheel's loop");
}

/* The wheel that a timer's memory names, if this thread may look into it. */
static uvwheel_t *
find_wheel(uint64_t home)
{
  uv_thread_t self = uv_thread_self();
  uvwheel_t *wheel;

  uv_mutex_lock(&wheels_mutex);
  for (wheel = wheels; wheel != NULL; wheel = wheel->next)
    if ((uintptr_t)wheel == (home & ~HOME_FLAGS))
      break;
  if (wheel != NULL && wheel->has_thread &&
      !uv_thread_equal(&wheel->thread, &self))
    wheel = NULL;
  uv_mutex_unlock(&wheels_mutex);
  return wheel;
}

/* The memory may hold anything: only if it looks like an active timer is it
 * searched for, among those of the wheel that it names. */
void
uvwheel__check_idle(const uvwheel_timer_t *timer)
{
  uvwheel_t *wheel = find_wheel(timer->home);
  uvwheel_cursor_t cursor;
  const uvwheel_entry_t *entry;
  bool found = false;

  if (wheel == NULL || timer->entry.link.next == NULL)
    return;
  uvwheel_core_walk_begin(&wheel->core, &cursor);
  while ((entry = uvwheel_core_walk_next(&wheel->core, &cursor)) != NULL)
    found = found || entry == &timer->entry;
  CHECK(!found, &wheel->core, &timer->entry, "initialised while active");
}

/* The memory of a request that is not queued may hold anything, also a copy of
 * one that is; but nothing else has its own address plus one there. */
void
uvwheel__check_queued(const uvwheel_mailbox_t *mailbox, uvwheel_post_t *post)
{
  CHECK(post->queued != (uintptr_t)post + 1, &mailbox->wheel->core,
        &post->timer->entry, "posted again while its request is queued");
  post->queued = (uintptr_t)post + 1;
}

void
uvwheel__check_unqueued(uvwheel_post_t *post)
{
  post->queued = 0;
}

#endif
