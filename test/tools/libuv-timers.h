/* SPDX-License-Identifier: MIT */

/* For libuv's own timer tests: what they call of a uv_timer_t is called of a
 * uvwheel_timer_t. */

#ifndef LIBUV_TIMERS_H
#define LIBUV_TIMERS_H

#include <uv.h>

#include "uvwheel.h"

int map_init(uv_loop_t *loop, uvwheel_timer_t *timer);

/* The functions of libuv that take any handle, a timer of a wheel too. */
int map_is_active(const uv_handle_t *handle);
void map_close(uv_handle_t *handle, uv_close_cb cb);
void map_unref(uv_handle_t *handle);

#ifndef LIBUV_TIMERS_ITSELF
#define uv_timer_t uvwheel_timer_t
#define uv_timer_cb uvwheel_timer_cb
#define uv_timer_init map_init
#define uv_timer_start uvwheel_timer_start
#define uv_timer_stop uvwheel_timer_stop
#define uv_timer_again uvwheel_timer_again
#define uv_timer_set_repeat uvwheel_timer_set_repeat
#define uv_timer_get_repeat uvwheel_timer_get_repeat
#define uv_timer_get_due_in uvwheel_timer_get_due_in
#define uv_is_active map_is_active
#define uv_close map_close
#define uv_unref map_unref
#endif

#endif /* LIBUV_TIMERS_H */
