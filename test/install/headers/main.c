/* SPDX-License-Identifier: MIT */

/* C and C++: the library that runs is the one of the headers. */

#include <uvwheel.h>

#include <stdio.h>
#include <string.h>

int
main(void)
{
  char version[32];

  snprintf(version, sizeof version, "%d.%d.%d", UVWHEEL_VERSION_MAJOR,
           UVWHEEL_VERSION_MINOR, UVWHEEL_VERSION_PATCH);
  printf("version %s, uvwheel_timer_t %zu bytes, uvwheel_t %zu bytes\n",
         uvwheel_version_string(), sizeof(uvwheel_timer_t), sizeof(uvwheel_t));
  if (uvwheel_version() != UVWHEEL_VERSION_HEX ||
      strcmp(uvwheel_version_string(), version) != 0)
    return 1;
  return sizeof(uvwheel_timer_t) > 64;
}
