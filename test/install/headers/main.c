/* SPDX-License-Identifier: MIT */

/* C and C++: the library that runs is the one of the headers, whose structs
 * have the sizes that they had in 1.0. */

#include <uvwheel.h>

#include <stdio.h>
#include <string.h>

#define SIZE_OF_A_TIMER (sizeof(void *) == 8 ? 64 : 48)

int main(void) {
  char version[32];

  snprintf(version, sizeof version, "%d.%d.%d%s", UVWHEEL_VERSION_MAJOR,
           UVWHEEL_VERSION_MINOR, UVWHEEL_VERSION_PATCH,
           UVWHEEL_VERSION_IS_RELEASE ? "" : "-" UVWHEEL_VERSION_SUFFIX);
  printf("version %s of the library, %s of the header\n",
         uvwheel_version_string(), version);
  printf("bytes: wheel %zu, timer %zu, options %zu, stats %zu, post %zu\n",
         sizeof(uvwheel_t), sizeof(uvwheel_timer_t), sizeof(uvwheel_options_t),
         sizeof(uvwheel_stats_t), sizeof(uvwheel_post_t));
  if (uvwheel_version() != UVWHEEL_VERSION_HEX ||
      strcmp(uvwheel_version_string(), version) != 0)
    return 1;
  return sizeof(uvwheel_timer_t) != SIZE_OF_A_TIMER ||
         sizeof(uvwheel_options_t) != 64 || sizeof(uvwheel_stats_t) != 392 ||
         sizeof(uvwheel_post_t) != 5 * sizeof(void *);
}
