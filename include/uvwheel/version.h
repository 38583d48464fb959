/* SPDX-License-Identifier: MIT */

/* The version of uvwheel. This file is its only place: the build reads it. */

#ifndef UVWHEEL_VERSION_H
#define UVWHEEL_VERSION_H

/* The version's three numbers; those of a library that runs may differ. */
#define UVWHEEL_VERSION_MAJOR 0
#define UVWHEEL_VERSION_MINOR 1
#define UVWHEEL_VERSION_PATCH 0

/* One number that can be compared, laid out like libuv's UV_VERSION_HEX. */
#define UVWHEEL_VERSION_HEX                                       \
  ((UVWHEEL_VERSION_MAJOR << 16) | (UVWHEEL_VERSION_MINOR << 8) | \
   UVWHEEL_VERSION_PATCH)

#endif /* UVWHEEL_VERSION_H */
