/* SPDX-License-Identifier: MIT */

/* A -Dchecks=true build tells of misuse that is undefined elsewhere, with the
 * wheel and the timer it concerns, and aborts. In other builds this file is
 * empty. */

#include "misuse.h"

#ifdef UVWHEEL_CHECKS

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "core.h"
#include "loop.h"
#include "timer.h"

/* uvwheel_t.thread_use: what is known of the thread in uvwheel_t.thread */
#define RUNS 1u /* it runs the loop */

/* All wheels that are not closed, so that what looks like a pointer to a wheel
 * can be told from what is one. */
static uvwheel_t *wheels;
static uv_mutex_t wheels_mutex;
static uv_once_t wheels_once = UV_ONCE_INIT;

/* Has a value on each thread that runs a loop with a wheel. */
static pthread_key_t running;

/* The entry, if any, is a timer's. */
void
uvwheel__misuse(const uvwheel_core_t *core, const uvwheel_entry_t *entry,
                const char *what)
{
  const void *wheel = core;
  const uvwheel_t *known;

  for (known = wheels; known != NULL; known = known->next)
    if (&known->core == core)
      wheel = known;
  fprintf(stderr, "uvwheel: wheel %p, hand at tick %" PRIu64, wheel,
          core->hand);
  if (entry != NULL)
    fprintf(stderr, ", timer %p, due at %" PRIu64 " ms, tick %" PRIu64,
            (const void *)entry, entry->due_ms,
            tick_after(core, entry->due_ms));
  fprintf(stderr, ": %s\n", what);
  abort();
}

/* The thread ends, and so has its loop: others may use its wheels. */
static void
release_wheels(void *unused)
{
  uv_thread_t self = uv_thread_self();
  uvwheel_t *wheel;

  (void)unused;
  uv_mutex_lock(&wheels_mutex);
  for (wheel = wheels; wheel != NULL; wheel = wheel->next)
    if (uv_thread_equal(&wheel->thread, &self))
      wheel->thread_use = 0;
  uv_mutex_unlock(&wheels_mutex);
}

static void
prepare(void)
{
  if (uv_mutex_init(&wheels_mutex) != 0 ||
      pthread_key_create(&running, release_wheels) != 0)
    abort();
}

void
uvwheel__register(uvwheel_t *wheel)
{
  const uvwheel_t *other;

  uv_once(&wheels_once, prepare);
  uv_mutex_lock(&wheels_mutex);
  for (other = wheels; other != NULL; other = other->next)
    MISUSE_IF(other == wheel, &wheel->core, NULL,
              "initialised while not closed");
  wheel->next = wheels;
  wheels = wheel;
  uv_mutex_unlock(&wheels_mutex);
}

void
uvwheel__unregister(uvwheel_t *wheel)
{
  uvwheel_t **link = &wheels;

  uv_mutex_lock(&wheels_mutex);
  while (*link != wheel)
    link = &(*link)->next;
  *link = wheel->next;
  wheel->thread_use = 0;
  uv_mutex_unlock(&wheels_mutex);
}

void
uvwheel__adopt_thread(uvwheel_t *wheel)
{
  uv_mutex_lock(&wheels_mutex);
  wheel->thread = uv_thread_self();
  wheel->thread_use = RUNS;
  uv_mutex_unlock(&wheels_mutex);
  (void)pthread_setspecific(running, wheel);
}

/* Until the wheel's first turn its loop may not be running yet: then whoever
 * prepares it may do so on any thread. After a turn the loop may be over, which
 * only the end of its thread tells. */
void
uvwheel__expect_thread(const uvwheel_t *wheel, const uvwheel_timer_t *timer)
{
  uv_thread_t self = uv_thread_self();
  bool is_other;

  uv_mutex_lock(&wheels_mutex);
  is_other =
      wheel->thread_use == RUNS && !uv_thread_equal(&wheel->thread, &self);
  uv_mutex_unlock(&wheels_mutex);
  MISUSE_IF(is_other, &wheel->core, timer == NULL ? NULL : &timer->entry,
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
  if (wheel != NULL && wheel->thread_use == RUNS &&
      !uv_thread_equal(&wheel->thread, &self))
    wheel = NULL;
  uv_mutex_unlock(&wheels_mutex);
  return wheel;
}

/* The memory may hold anything: only if it looks like an active timer is it
 * searched for, among those of the wheel that it names. */
void
uvwheel__expect_idle(const uvwheel_timer_t *timer)
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
  MISUSE_IF(found, &wheel->core, &timer->entry, "initialised while active");
}

/* The memory of a request that is not queued may hold anything, also a copy of
 * one that is; but nothing else has its own address plus one there. */
void
uvwheel__register_post(const uvwheel_t *wheel, uvwheel_post_t *post)
{
  MISUSE_IF(post->queued == (uintptr_t)post + 1, &wheel->core, NULL,
            "posted again while its request is queued");
  post->queued = (uintptr_t)post + 1;
}

void
uvwheel__unregister_post(uvwheel_post_t *post)
{
  post->queued = 0;
}

#endif
