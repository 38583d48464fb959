/* SPDX-License-Identifier: MIT */

/* The live page where there is no libmicrohttpd: there is none. */

#include "../common/cli.h"
#include "live.h"

int page_start(page_t *page, uv_loop_t *loop, const server_options_t *options,
               const live_wheel_t *shown, size_t shown_count) {
  (void)page, (void)loop, (void)options;
  (void)shown, (void)shown_count;
  complain("built without libmicrohttpd: --http is not available");
  return UV_ENOTSUP;
}

void page_stop(page_t *page) {
  (void)page;
}

void page_free(page_t *page) {
  (void)page;
}
