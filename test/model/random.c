/* SPDX-License-Identifier: MIT */

/* Plays byte strings. `model_wheel SEED COUNT` plays COUNT random ones, from
 * the one of that seed on; each seed stands for one string, always the same.
 * `model_wheel FILE...` plays what is in the files, and in all files of the
 * directories, that are named. */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_time.h"
#include "play.h"

#define LONGEST 1000000

/* What is being played, if it is not a file. */
static uint64_t seed;
static const char *file;
static unsigned long files_played;

static void report(void) {
  if (file != NULL)
    fprintf(stderr, "to repeat it: %s\n", file);
  else
    fprintf(stderr, "to repeat it: SEED %" PRIu64 " COUNT 1\n", seed);
}

/* ---- Random strings ------------------------------------------------------ */

/* The upper half of a linear congruential generator (Knuth's constants). */
static uint32_t next_random(uint64_t *state) {
  *state =
      *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 32);
}

/* Short strings meet many different wheels, long ones go far with one. */
static void play_random(void) {
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15);
  size_t size = (size_t)1 << (4 + next_random(&state) % 9), i;
  uint8_t *data = malloc(size); /* so that reading beyond it shows */

  require(data != NULL);
  for (i = 0; i < size; i++)
    data[i] = (uint8_t)(next_random(&state) >> 24);
  limit_cpu_time();
  play(data, size);
  free(data);
}

/* ---- Files --------------------------------------------------------------- */

static void give_up(void) {
  fprintf(stderr, "%s: %s\n", file, strerror(errno));
  exit(2);
}

static void play_file(void) {
  static uint8_t buffer[LONGEST];
  FILE *stream = fopen(file, "rb");
  uint8_t *data;
  size_t size;

  if (stream == NULL)
    give_up();
  size = fread(buffer, 1, sizeof buffer, stream);
  data = malloc(size + 1); /* so that reading beyond it shows */
  if (ferror(stream) || data == NULL)
    give_up();
  memcpy(data, buffer, size);
  limit_cpu_time();
  play(data, size);
  free(data);
  fclose(stream);
  files_played++;
}

static void play_directory(DIR *directory, const char *name) {
  static char path[4096];
  const struct dirent *entry;

  file = path;
  while ((entry = readdir(directory)) != NULL) {
    if (entry->d_name[0] == '.')
      continue;
    snprintf(path, sizeof path, "%s/%s", name, entry->d_name);
    play_file();
  }
}

static void play_files(char **names) {
  for (; *names != NULL; names++) {
    DIR *directory = opendir(*names);
    file = *names;
    if (directory == NULL) {
      play_file();
      continue;
    }
    play_directory(directory, *names);
    closedir(directory);
  }
  printf("as the model says, %lu files\n", files_played);
}

int main(int argc, char **argv) {
  uint64_t first, count;

  if (argc < 2) {
    fprintf(stderr, "usage: %s SEED COUNT\n       %s FILE...\n", argv[0],
            argv[0]);
    return 2;
  }
  tell_at_the_end(report);
  if (argc != 3 || !parse_number(argv[1], &first) ||
      !parse_number(argv[2], &count)) {
    play_files(argv + 1);
    return files_played == 0 ? 2 : 0;
  }
  for (seed = first; seed - first < count; seed++)
    play_random();
  printf("as the model says, seeds %" PRIu64 " to %" PRIu64 "\n", first,
         seed - 1);
  return 0;
}
