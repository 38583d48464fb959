/* SPDX-License-Identifier: MIT */

/* A -Dchecks=true build reports misuse that is undefined in others, names the
 * wheel and the timer, and aborts. In other builds this file is empty. */

#include "misuse.h"

#include "loop.h"
#include "slot.h"
#include "timer.h"

#ifdef UVWHEEL_CHECKS

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#if defined(_GNU_SOURCE) && !defined(_WIN32)
#include <dlfcn.h>
#define HAS_DLADDR 1
#endif
#if defined(__has_include) && \
    !defined(__cppcheck__) /* which stumbles over it */
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif
#endif

/* All wheels that are not closed, so that what looks like a pointer to a wheel
 * can be told from what is one. */
static uvwheel_t *wheels;
static uv_mutex_t wheels_mutex;
static uv_once_t wheels_once = UV_ONCE_INIT;

/* Names a timer's callback, where the system can: a static function as
 * addr2line takes it. */
static void
print_callback(const uvwheel_timer_t *timer)
{
#ifdef HAS_DLADDR
  void *address;
  Dl_info info;

  memcpy(&address, &timer->cb, sizeof address);
  if (dladdr(address, &info) == 0)
    return;
  if (info.dli_sname != NULL)
    fprintf(stderr, ", callback %s", info.dli_sname);
  else
    fprintf(stderr, ", callback %s+0x%" PRIxPTR, info.dli_fname,
            (uintptr_t)address - (uintptr_t)info.dli_fbase);
#else
  (void)timer;
#endif
}

void
uvwheel__misuse(const uvwheel_core_t *core, const uvwheel_entry_t *entry,
                const char *what)
{
  const uvwheel_t *wheel = wheels;

  while (wheel != NULL && &wheel->core != core)
    wheel = wheel->next;
  fprintf(stderr, "uvwheel: wheel %p, hand at tick %" PRIu64,
          wheel != NULL ? (const void *)wheel : (const void *)core, core->hand);
  if (entry != NULL)
    fprintf(stderr, ", timer %p, due at %" PRIu64 " ms, tick %" PRIu64,
            (const void *)entry, entry->due_ms,
            tick_after(core, entry->due_ms));
  if (entry != NULL && wheel != NULL) /* else the entry is not a timer's */
    print_callback(CONTAINER_OF(entry, uvwheel_timer_t, entry));
  fprintf(stderr, ": %s\n", what);
  abort();
}

static void
prepare(void)
{
  if (uv_mutex_init(&wheels_mutex) != 0)
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
  (void)uv_prepare_init(wheel->loop, &wheel->before_poll);
  (void)uv_prepare_start(&wheel->before_poll, uvwheel__enter_loop);
  uv_unref((uv_handle_t *)&wheel->before_poll);
}

void
uvwheel__unregister(uvwheel_t *wheel)
{
  uvwheel_t **link = &wheels;

  uv_mutex_lock(&wheels_mutex);
  while (*link != wheel)
    link = &(*link)->next;
  *link = wheel->next;
  uv_mutex_unlock(&wheels_mutex);
}

/* From here until uvwheel__leave_loop this thread polls and runs callbacks. At
 * other times the run may be over, and other threads may use the wheel. */
void
uvwheel__enter_loop(uv_prepare_t *before_poll)
{
  uvwheel_t *wheel = CONTAINER_OF(before_poll, uvwheel_t, before_poll);

  uv_mutex_lock(&wheels_mutex);
  wheel->thread = uv_thread_self();
  wheel->is_in_loop = 1;
  uv_mutex_unlock(&wheels_mutex);
}

void
uvwheel__leave_loop(uvwheel_t *wheel)
{
  uv_mutex_lock(&wheels_mutex);
  wheel->is_in_loop = 0;
  uv_mutex_unlock(&wheels_mutex);
}

static bool
is_on_another_thread(const uvwheel_t *wheel)
{
  uv_thread_t self = uv_thread_self();

  return wheel->is_in_loop && !is_closing(wheel) &&
         !uv_thread_equal(&wheel->thread, &self);
}

void
uvwheel__expect_thread(const uvwheel_t *wheel, const uvwheel_timer_t *timer)
{
  bool is_other;

  uv_mutex_lock(&wheels_mutex);
  is_other = is_on_another_thread(wheel);
  uv_mutex_unlock(&wheels_mutex);
  MISUSE_IF(is_other, &wheel->core, timer == NULL ? NULL : &timer->entry,
            "used on another thread than the wheel's loop");
}

/* The wheel that a timer's memory names, if this thread may look into it. */
static uvwheel_t *
find_wheel(uint64_t home)
{
  uvwheel_t *wheel;

  uv_mutex_lock(&wheels_mutex);
  for (wheel = wheels; wheel != NULL; wheel = wheel->next)
    if ((uintptr_t)wheel == (home & ~HOME_FLAGS))
      break;
  if (wheel != NULL && is_on_another_thread(wheel))
    wheel = NULL;
  uv_mutex_unlock(&wheels_mutex);
  return wheel;
}

/* The memory may hold anything, and valgrind may know that it was never
 * written. Only if it looks like an active timer is it searched for, among
 * those of the wheel that it names. */
void
uvwheel__expect_idle(const uvwheel_timer_t *timer)
{
  uvwheel_timer_t copy = *timer;
  uvwheel_cursor_t cursor;
  const uvwheel_entry_t *entry;
  uvwheel_t *wheel;
  bool found = false;

#ifdef VALGRIND_MAKE_MEM_DEFINED
  (void)VALGRIND_MAKE_MEM_DEFINED(&copy, sizeof copy);
#endif
  wheel = find_wheel(copy.home);
  if (wheel == NULL || copy.entry.link.next == NULL)
    return;
  uvwheel__core_walk_begin(&wheel->core, &cursor);
  while ((entry = uvwheel__core_walk_next(&wheel->core, &cursor)) != NULL)
    found = found || entry == &timer->entry;
  MISUSE_IF(found, &wheel->core, &timer->entry, "initialised while active");
}

/* The memory of a request that is not queued may hold anything, even a copy of
 * one that is, but hardly its own address plus one. */
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
