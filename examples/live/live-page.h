/* SPDX-License-Identifier: MIT */

/* live.html with its style and script, which live-embed.py turns into C. */

#ifndef EXAMPLES_LIVE_PAGE_H
#define EXAMPLES_LIVE_PAGE_H

#include <stddef.h>

extern const unsigned char live_page[];
extern const size_t live_page_size;

extern const char live_page_policy[]; /* its Content-Security-Policy */

#endif /* EXAMPLES_LIVE_PAGE_H */
