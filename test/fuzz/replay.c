/* SPDX-License-Identifier: MIT */

/* Runs a fuzz target, built by any compiler, on the files named, on all files
 * of the directories named or, without arguments, on the standard input. */

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 1000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long played;

static void
give_up(const char *what)
{
  fprintf(stderr, "replay: %s: %s\n", what, strerror(errno));
  exit(2);
}

static void
replay_stream(FILE *stream, const char *name)
{
  static uint8_t buffer[LONGEST];
  size_t size = fread(buffer, 1, sizeof buffer, stream);
  uint8_t *data = malloc(size + 1); /* so that reading beyond it shows */

  if (ferror(stream) || data == NULL)
    give_up(name);
  memcpy(data, buffer, size);
  LLVMFuzzerTestOneInput(data, size);
  free(data);
  played++;
}

static void
replay_file(const char *name)
{
  FILE *stream = fopen(name, "rb");

  if (stream == NULL)
    give_up(name);
  replay_stream(stream, name);
  fclose(stream);
}

static void
replay_directory(DIR *directory, const char *name)
{
  char path[4096];
  const struct dirent *entry;

  while ((entry = readdir(directory)) != NULL) {
    if (entry->d_name[0] == '.')
      continue;
    snprintf(path, sizeof path, "%s/%s", name, entry->d_name);
    replay_file(path);
  }
}

int
main(int argc, char **argv)
{
  int i;

  if (argc == 1)
    replay_stream(stdin, "the standard input");
  for (i = 1; i < argc; i++) {
    DIR *directory = opendir(argv[i]);
    if (directory == NULL) {
      replay_file(argv[i]);
      continue;
    }
    replay_directory(directory, argv[i]);
    closedir(directory);
  }
  printf("%lu played, all as the model says\n", played);
  return played == 0 ? 2 : 0;
}
