/* SPDX-License-Identifier: MIT */

#include "live-wheels.h"

#include <stdlib.h>

#define MOST_PAUSE_NS UINT64_C(1000000000)

/* ---- Slots -------------------------------------------------------------- */

/* The time for a step, and the most that earlier ones may leave to it. */
#define STEP_NS (LIVE_INTERVAL_MS * 1000000 / LIVE_SHARE)

void live_picture_begin(live_picture_t *picture, uvwheel_t *wheel) {
  uvwheel_options_t options;
  uint64_t slots, cells;

  (void)uvwheel_get_options(wheel, &options);
  slots = options.slots;
  cells = slots < LIVE_MAX_CELLS ? slots : LIVE_MAX_CELLS;
  *picture = (live_picture_t){
      .wheel = wheel,
      .cell_count = cells,
      .slots_per_cell = slots / cells,
      .counted_ns = uv_hrtime(),
      .allowance_ns = STEP_NS,
  };
}

static void count_cell(live_picture_t *picture) {
  uint64_t slot = picture->next_cell * picture->slots_per_cell;
  uint64_t count = 0;

  for (uint64_t i = 0; i < picture->slots_per_cell; i++)
    count += uvwheel_count_slot(picture->wheel, slot + i);
  picture->cells[picture->next_cell] = count;
  picture->next_cell = (picture->next_cell + 1) % picture->cell_count;
}

/* A cell that took longer than what was left is made up for: the allowance is
 * then below zero, and the next steps are left out. */
void live_picture_count(live_picture_t *picture) {
  uint64_t now_ns = uv_hrtime();

  picture->allowance_ns += (int64_t)(now_ns - picture->counted_ns) / LIVE_SHARE;
  if (picture->allowance_ns > STEP_NS)
    picture->allowance_ns = STEP_NS;
  picture->counted_ns = now_ns;
  for (uint64_t i = 0; i < picture->cell_count && picture->allowance_ns > 0;
       i++) {
    count_cell(picture);
    uint64_t before_ns = now_ns;
    now_ns = uv_hrtime();
    picture->allowance_ns -= (int64_t)(now_ns - before_ns);
  }
}

/* ---- Wheels ------------------------------------------------------------- */

int live_wheels_init(live_wheels_t *wheels, const live_wheel_t *shown,
                     size_t count, const uv_loop_t *loop) {
  int error = 0;

  wheels->views = calloc(count, sizeof(*wheels->views));
  if (wheels->views == NULL)
    return UV_ENOMEM;
  wheels->count = count;
  if (shown[0].count_count > LIVE_MAX_COUNTS)
    return UV_E2BIG;
  for (size_t i = 0; i < count && error == 0; i++) {
    live_view_t *view = &wheels->views[i];
    view->wheel = shown[i];
    view->is_local = uvwheel_get_loop(shown[i].wheel) == loop;
    view->post.data = view;
    /* A report never has figures that are 0 because nobody asked. */
    live_snapshot_take(&view->taken.snapshot, &view->wheel);
    if (!view->is_local)
      error = uvwheel_open_mailbox(shown[i].wheel);
  }
  return error;
}

void live_wheels_free(live_wheels_t *wheels) {
  free(wheels->views);
}

/* On the loop of the wheel. Counts from before the first viewer are too old. */
static void take(live_view_t *view) {
  live_picture_t *picture = &view->taken.picture;

  if (view->counts) {
    if (picture->wheel == NULL ||
        uv_hrtime() - picture->counted_ns > MOST_PAUSE_NS)
      live_picture_begin(picture, view->wheel.wheel);
    live_picture_count(picture);
  }
  live_snapshot_take(&view->taken.snapshot, &view->wheel);
}

/* A wheel that is being closed never answers again. */
static void on_asked(uvwheel_post_t *post, int status) {
  live_view_t *view = post->data;

  if (status != 0)
    return;
  take(view);
  atomic_store(&view->is_asked, false);
}

void live_wheels_ask(live_wheels_t *wheels, bool counts) {
  for (size_t i = 0; i < wheels->count; i++) {
    live_view_t *view = &wheels->views[i];
    if (atomic_load(&view->is_asked))
      continue;
    view->shown = view->taken;
    view->counts = counts;
    if (view->is_local) {
      take(view);
    } else {
      view->asked_ns = uv_hrtime();
      atomic_store(&view->is_asked, true);
      uvwheel_post(view->wheel.wheel, &view->post, on_asked);
    }
  }
}

bool live_wheels_collect(live_wheels_t *wheels) {
  bool has_all = true;

  for (size_t i = 0; i < wheels->count; i++) {
    live_view_t *view = &wheels->views[i];
    if (atomic_load(&view->is_asked)) {
      view->shown.snapshot.unanswered_ms =
          (uv_hrtime() - view->asked_ns) / 1000000;
      has_all = false;
    } else {
      view->shown = view->taken;
    }
  }
  return has_all;
}

void live_wheels_judge(live_wheels_t *wheels, uint64_t page_ms) {
  for (size_t i = 0; i < wheels->count; i++) {
    live_view_t *view = &wheels->views[i];
    live_judge(&view->judged, &view->wheel, &view->shown.snapshot, page_ms);
  }
}
