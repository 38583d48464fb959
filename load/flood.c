/* SPDX-License-Identifier: MIT */

#include "flood.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../examples/common/cli.h"
#include "judge.h"

int
flood_init(flood_t *flood, uint64_t newcomers, uint64_t duration_ns)
{
  *flood = (flood_t){.newcomers = newcomers};
  if (newcomers == 0)
    return 0;
  flood->interval_ns = duration_ns / newcomers;
  flood->times_ns = calloc(newcomers, sizeof(*flood->times_ns));
  return flood->times_ns == NULL ? -1 : 0;
}

void
flood_destroy(flood_t *flood)
{
  free(flood->times_ns);
}

int
flood_is_due(const flood_t *flood, uint64_t newcomer, uint64_t ran_ns)
{
  return ran_ns >= newcomer * flood->interval_ns;
}

void
flood_served(flood_t *flood, uint64_t time_ns)
{
  flood->times_ns[flood->served++] = time_ns;
}

static double
time_ms(const flood_t *flood, unsigned percent)
{
  uint64_t index;

  if (flood->served == 0)
    return 0;
  index = (flood->served - 1) * (uint64_t)percent / 100;
  return (double)flood->times_ns[index] / (double)NS_PER_MS;
}

int
flood_report(flood_t *flood, FILE *stream)
{
  if (flood->newcomers == 0)
    return 0;
  qsort(flood->times_ns, flood->served, sizeof(*flood->times_ns), compare_ns);
  fprintf(stream,
          "newcomers     %" PRIu64 " of %" PRIu64
          " served, in %.1f ms, at most %.1f ms\n"
          "flood newcomers=%" PRIu64 " served=%" PRIu64
          " served_median_ms=%.1f served_max_ms=%.1f\n",
          flood->served, flood->newcomers, time_ms(flood, 50),
          time_ms(flood, 100), flood->newcomers, flood->served,
          time_ms(flood, 50), time_ms(flood, 100));
  if (flood->served == flood->newcomers)
    return 0;
  complain("promise broken %" PRIu64 " times: a newcomer was not served",
           flood->newcomers - flood->served);
  return 1;
}
