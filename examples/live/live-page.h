/* SPDX-License-Identifier: MIT */

/* live.html with its style and script, which live-embed.py turns into C. */

#ifndef EXAMPLES_LIVE_PAGE_H
#define EXAMPLES_LIVE_PAGE_H

#include <stddef.h>

extern const unsigned char live_page[];
extern const size_t live_page_size;

/* The sources of its script and of its style for a Content-Security-Policy:
 * their hashes. */
extern const char live_page_script[];
extern const char live_page_style[];

#endif /* EXAMPLES_LIVE_PAGE_H */
