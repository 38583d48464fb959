/* SPDX-License-Identifier: MIT */

#include "judge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "../examples/common/cli.h"

#define PACE_NS (PACE_MS * NS_PER_MS)

/* The time between two measurements: a lag that short may not be seen. */
#define UNSEEN_LAG_NS PACE_NS

#define LEAST_WAIT_NS (25 * NS_PER_MS)
#define MOST_WAIT_NS (250 * NS_PER_MS)

int
judge_init(judge_t *judge, uint64_t closes, uint64_t timeout_ms,
           uint64_t tick_ms)
{
  memset(judge, 0, sizeof(*judge));
  judge->timeout_ns = timeout_ms * NS_PER_MS;
  judge->tick_ns = tick_ms * NS_PER_MS;
  judge->lateness_ns = calloc(closes, sizeof(*judge->lateness_ns));
  return judge->lateness_ns == NULL ? -1 : 0;
}

void
judge_destroy(judge_t *judge)
{
  free(judge->lateness_ns);
}

static void
raise_to(uint64_t *longest, uint64_t value)
{
  if (*longest < value)
    *longest = value;
}

void
judge_closed(judge_t *judge, const closed_t *connection)
{
  uint64_t idle_ns = connection->closed_ns - connection->heard_ns;

  if (judge->timeout_ns == 0 || idle_ns < judge->timeout_ns) {
    if (connection->chatty || judge->timeout_ns == 0)
      judge->wrong++;
    else
      judge->early++;
    judge->lost += connection->waiting != 0;
  } else if (connection->chatty || connection->waiting) {
    judge->starved++;
  } else {
    judge->lateness_ns[judge->closed++] = idle_ns - judge->timeout_ns;
  }
}

/* How much of this time the server was made deaf. */
static uint64_t
deaf_ns(const judge_t *judge, uint64_t from_ns, uint64_t to_ns)
{
  if (judge->deaf_from_ns == 0)
    return 0;
  if (from_ns < judge->deaf_from_ns)
    from_ns = judge->deaf_from_ns;
  if (judge->deaf_to_ns != 0 && to_ns > judge->deaf_to_ns)
    to_ns = judge->deaf_to_ns;
  return to_ns > from_ns ? to_ns - from_ns : 0;
}

void
judge_echo(judge_t *judge, uint64_t sent_ns, uint64_t now_ns)
{
  judge->echoes++;
  raise_to(&judge->longest_echo_ns,
           now_ns - sent_ns - deaf_ns(judge, sent_ns, now_ns));
}

uint64_t
judge_awake(judge_t *judge)
{
  uint64_t now_ns = uv_hrtime();
  uint64_t gap_ns = now_ns - judge->awake_ns;

  if (judge->awake_ns != 0 && gap_ns > PACE_NS)
    raise_to(&judge->longest_delay_ns, gap_ns - PACE_NS);
  judge->awake_ns = now_ns;
  return now_ns;
}

/* The lag: a message may be slow to arrive, which begins the idle time, and
 * the close may be slow to happen and to be seen. */
static uint64_t
recent_lag_ns(const judge_t *judge)
{
  return 2 * judge->longest_echo_ns + judge->longest_delay_ns + UNSEEN_LAG_NS;
}

static uint64_t
lag_ns(const judge_t *judge)
{
  uint64_t lag_ns = recent_lag_ns(judge);

  raise_to(&lag_ns, judge->earlier_lag_ns);
  return lag_ns;
}

void
judge_begin_anew(judge_t *judge)
{
  *judge = (judge_t){
      .timeout_ns = judge->timeout_ns,
      .tick_ns = judge->tick_ns,
      .is_never_quiet = judge->is_never_quiet,
      .lateness_ns = judge->lateness_ns,
      .awake_ns = judge->awake_ns,
      .earlier_lag_ns = recent_lag_ns(judge),
  };
}

/* By how much a stall may make a close later. */
static uint64_t
set_back_ns(const judge_t *judge)
{
  uint64_t grace_ns = judge->stall_ns < NS_PER_S ? judge->stall_ns : NS_PER_S;

  return 2 * (judge->stall_ns + grace_ns);
}

/* For how long a timer that is due may wait in a loop that is never quiet. */
static uint64_t
wait_ns(const judge_t *judge)
{
  uint64_t quarter_ns = judge->tick_ns / 4;

  if (!judge->is_never_quiet)
    return 0;
  if (quarter_ns < LEAST_WAIT_NS)
    return LEAST_WAIT_NS;
  return quarter_ns < MOST_WAIT_NS ? quarter_ns : MOST_WAIT_NS;
}

uint64_t
judge_allowed_ns(const judge_t *judge)
{
  /* The millisecond is the resolution of the server's clock. */
  return judge->tick_ns + wait_ns(judge) + NS_PER_MS + lag_ns(judge) +
         set_back_ns(judge);
}

/* ---- Report ------------------------------------------------------------ */

int
compare_ns(const void *a, const void *b)
{
  uint64_t left = *(const uint64_t *)a;
  uint64_t right = *(const uint64_t *)b;

  return (left > right) - (left < right);
}

static double
ms(uint64_t ns)
{
  return (double)ns / (double)NS_PER_MS;
}

/* The lateness, in ms, that this share of the closes does not exceed. */
static double
lateness_ms(const judge_t *judge, unsigned percent)
{
  if (judge->closed == 0)
    return 0;
  uint64_t index = (judge->closed - 1) * percent / 100;
  return ms(judge->lateness_ns[index]);
}

static uint64_t
count_late(const judge_t *judge)
{
  uint64_t allowed_ns = judge_allowed_ns(judge);
  uint64_t late = 0;

  for (uint64_t i = 0; i < judge->closed; i++)
    late += judge->lateness_ns[i] > allowed_ns;
  return late;
}

static void
print_findings(const judge_t *judge, uint64_t late, FILE *stream)
{
  fprintf(stream,
          "echoes        %" PRIu64 " of %" PRIu64 " came back, %" PRIu64
          " garbled, %" PRIu64 " lost\n"
          "idle closes   %" PRIu64 " on time, %" PRIu64 " early, %" PRIu64
          " late, %" PRIu64 " missing\n",
          judge->echoes, judge->messages, judge->garbled, judge->lost,
          judge->closed - late, judge->early, late, judge->missing);
  if (judge->closed != 0)
    fprintf(stream,
            "lateness      min %.1f, median %.1f, p99 %.1f, max %.1f ms\n",
            lateness_ms(judge, 0), lateness_ms(judge, 50),
            lateness_ms(judge, 99), lateness_ms(judge, 100));
  fprintf(stream,
          "allowed       %.0f ms for one tick, and %.1f ms by which this "
          "machine lagged\n",
          ms(judge->tick_ns), ms(NS_PER_MS + lag_ns(judge)));
  if (judge->is_never_quiet)
    fprintf(stream,
            "busy          the loop was never quiet, for which a close may be "
            "late by %.0f ms\n",
            ms(wait_ns(judge)));
  if (judge->stall_ns != 0)
    fprintf(stream,
            "stalled       %.0f ms, for which a close may be late by %.0f ms\n",
            ms(judge->deaf_to_ns - judge->deaf_from_ns),
            ms(set_back_ns(judge)));
  fprintf(stream, "wrong closes  %" PRIu64 "\n",
          judge->wrong + (judge->stall_ns != 0 ? judge->starved : 0));
  fprintf(stream,
          "result echoes=%" PRIu64 " on_time=%" PRIu64 " early=%" PRIu64
          " late=%" PRIu64 " missing=%" PRIu64 " wrong=%" PRIu64
          " garbled=%" PRIu64 " lost=%" PRIu64 " starved=%" PRIu64
          " lateness_min_ms=%.1f lateness_median_ms=%.1f"
          " lateness_p99_ms=%.1f lateness_max_ms=%.1f lag_ms=%.1f\n",
          judge->echoes, judge->closed - late, judge->early, late,
          judge->missing, judge->wrong, judge->garbled, judge->lost,
          judge->starved, lateness_ms(judge, 0), lateness_ms(judge, 50),
          lateness_ms(judge, 99), lateness_ms(judge, 100), ms(lag_ns(judge)));
}

/* One promise: how often it was broken, and how. */
static int
broken(uint64_t count, const char *how)
{
  if (count == 0)
    return 0;
  complain("promise broken %" PRIu64 " times: %s", count, how);
  return 1;
}

/* Could the starved not be heard, or not speak? */
static int
is_excuse(const judge_t *judge)
{
  uint64_t delay_ns =
      judge->stall_ns != 0 ? judge->longest_delay_ns : lag_ns(judge);

  return delay_ns > judge->timeout_ns / 2;
}

int
judge_report(judge_t *judge, FILE *stream)
{
  uint64_t late = count_late(judge);
  uint64_t starved = is_excuse(judge) ? 0 : judge->starved;

  qsort(judge->lateness_ns, judge->closed, sizeof(*judge->lateness_ns),
        compare_ns);
  print_findings(judge, late, stream);
  if (judge->starved != starved)
    complain("%" PRIu64 " connections could not be judged, a process was "
             "stopped for too long",
             judge->starved);
  return broken(judge->early, "a connection was closed before its timeout") +
         broken(late, "an idle connection was closed too late") +
         broken(judge->missing, "an idle connection was never closed") +
         broken(judge->wrong, "a connection in use was closed") +
         broken(starved, judge->stall_ns == 0
                             ? "messages were not answered"
                             : "a connection was closed for a stall") +
         broken(judge->lost, "an echo did not come back") +
         broken(judge->garbled, "an echo differs from what was sent");
}
