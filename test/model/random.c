/* SPDX-License-Identifier: MIT */

/* Plays random byte strings: `model_wheel SEED COUNT` plays COUNT of them, from
 * the one of that seed on. Each seed stands for one string, always the same. */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "play.h"

/* Sanitizers end by abort, too, so that the seed is printed. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *
__asan_default_options(void)
{
  return "abort_on_error=1";
}

const char *
__ubsan_default_options(void)
{
  return "abort_on_error=1:print_stacktrace=1";
}

static uint64_t seed;

static void
tell_seed(int signal_number)
{
  fprintf(stderr, "to repeat it: SEED %" PRIu64 " COUNT 1\n", seed);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

/* The upper half of a linear congruential generator (Knuth's constants). */
static uint32_t
next_random(uint64_t *state)
{
  *state =
      *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 32);
}

/* Short strings meet many different wheels, long ones go far with one. */
static void
play_random(void)
{
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15);
  size_t size = (size_t)1 << (4 + next_random(&state) % 9), i;
  uint8_t *data = malloc(size); /* so that reading beyond it shows */

  if (data == NULL)
    abort();
  for (i = 0; i < size; i++)
    data[i] = (uint8_t)(next_random(&state) >> 24);
  play(data, size);
  free(data);
}

static bool
parse(const char *text, uint64_t *value)
{
  char *end;

  errno = 0;
  *value = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

int
main(int argc, char **argv)
{
  uint64_t first, count;

  if (argc != 3 || !parse(argv[1], &first) || !parse(argv[2], &count)) {
    fprintf(stderr, "usage: %s SEED COUNT\n", argv[0]);
    return 2;
  }
  signal(SIGABRT, tell_seed);
  for (seed = first; seed - first < count; seed++)
    play_random();
  printf("as the model says, seeds %" PRIu64 " to %" PRIu64 "\n", first,
         seed - 1);
  return 0;
}
