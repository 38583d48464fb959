/* SPDX-License-Identifier: MIT */

#include "judge.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include <uv.h>

#include "../../examples/common/cli.h"

#define PACE_NS (PACE_MS * NS_PER_MS)

/* The time between two measurements: a lag that short may not be seen. */
#define UNSEEN_LAG_NS PACE_NS

/* With a longer one lateness is not judged. */
#define MOST_LAG_NS (100 * NS_PER_MS)

/* For how long a timer that is due may wait in a loop that is never quiet. */
#define MOST_WAIT_NS (2 * 250 * NS_PER_MS)

void judge_init(judge_t *judge, const options_t *options) {
  judge->options = options;
  judge->timeout_ns = options->timeout_ms * NS_PER_MS;
  judge->tick_ns = options->tick_ms * NS_PER_MS;
}

static void raise_to(uint64_t *longest, uint64_t value) {
  if (*longest < value)
    *longest = value;
}

void judge_closed(judge_t *judge, int chatty, int waiting, uint64_t heard_ns,
                  uint64_t closed_ns) {
  uint64_t idle_ns = closed_ns - heard_ns;

  if (judge->timeout_ns == 0 || idle_ns < judge->timeout_ns) {
    if (chatty || judge->timeout_ns == 0)
      judge->wrong++;
    else
      judge->early++;
    judge->lost += waiting != 0;
  } else if (chatty || waiting) {
    judge->starved++;
  } else {
    uint64_t late_ns = idle_ns - judge->timeout_ns;
    uint64_t step = late_ns / LATENESS_STEP_NS;
    judge->lateness[step < LATENESS_STEPS ? step : LATENESS_STEPS - 1]++;
    judge->closed++;
    raise_to(&judge->lateness_max_ns, late_ns);
  }
}

void judge_answer(judge_t *judge, uint64_t sent_ns, uint64_t now_ns) {
  raise_to(&judge->longest_echo_ns, now_ns - sent_ns);
}

void judge_echo(judge_t *judge, uint64_t sent_ns, uint64_t now_ns) {
  judge->echoes++;
  judge_answer(judge, sent_ns, now_ns);
}

uint64_t judge_awake(judge_t *judge) {
  uint64_t now_ns = uv_hrtime();
  uint64_t gap_ns = now_ns - judge->awake_ns;

  if (judge->awake_ns != 0 && gap_ns > PACE_NS)
    raise_to(&judge->longest_delay_ns, gap_ns - PACE_NS);
  judge->awake_ns = now_ns;
  return now_ns;
}

/* The lag: a message may be slow to arrive, which begins the idle time, and
 * the close may be slow to happen and to be seen. */
static uint64_t lag_ns(const judge_t *judge) {
  return 2 * judge->longest_echo_ns + judge->longest_delay_ns + UNSEEN_LAG_NS;
}

static uint64_t longest_lag_ns(const judge_t *judge) {
  return judge->longest_echo_ns > judge->longest_delay_ns
             ? judge->longest_echo_ns
             : judge->longest_delay_ns;
}

uint64_t judge_allowed_ns(const judge_t *judge) {
  /* The millisecond is the resolution of the server's clock. */
  return judge->tick_ns + (judge->is_never_quiet ? MOST_WAIT_NS : 0) +
         NS_PER_MS + lag_ns(judge);
}

/* ---- Stall -------------------------------------------------------------- */

int judge_stalls(const judge_t *judge) {
  return judge->blocked_from_ns != 0 && judge->blocked_to_ns == 0;
}

/* It begins when the silent ones are silent, and their timers wait. */
int judge_stall(judge_t *judge, uint64_t running_ns, uint64_t now_ns) {
  const options_t *options = judge->options;
  int number = options->stalls_by_usr1 ? SIGUSR1 : SIGSTOP;

  if (options->stall_s == 0 || judge->blocked_to_ns != 0)
    return 0;
  if (judge->blocked_from_ns == 0) {
    if (now_ns - running_ns < judge->timeout_ns / 2)
      return 0;
    judge->blocked_from_ns = now_ns;
    return kill((pid_t)options->pid, number) == 0 ? 0 : errno;
  }
  if (now_ns - judge->blocked_from_ns >= options->stall_s * NS_PER_S)
    judge_end_stall(judge);
  return 0;
}

void judge_end_stall(judge_t *judge) {
  if (!judge_stalls(judge))
    return;
  judge->blocked_to_ns = uv_hrtime();
  if (!judge->options->stalls_by_usr1)
    kill((pid_t)judge->options->pid, SIGCONT);
}

/* ---- Report ------------------------------------------------------------ */

static double ms(uint64_t ns) {
  return (double)ns / (double)NS_PER_MS;
}

/* How late, in ms, at most was this share of the closes? */
static double lateness_ms(const judge_t *judge, unsigned percent) {
  uint64_t seen = judge->lateness[0], step = 0;

  while (seen * 100 < judge->closed * percent)
    seen += judge->lateness[++step];
  uint64_t end_ns = (step + 1) * LATENESS_STEP_NS;
  return ms(end_ns < judge->lateness_max_ns ? end_ns : judge->lateness_max_ns);
}

static uint64_t count_late(const judge_t *judge) {
  uint64_t late = 0;

  for (uint64_t step = judge_allowed_ns(judge) / LATENESS_STEP_NS + 1;
       step < LATENESS_STEPS; step++)
    late += judge->lateness[step];
  return late;
}

/* One promise: how often it was broken, and how. */
static int broken(uint64_t count, const char *how) {
  if (count == 0)
    return 0;
  complain("promise broken %" PRIu64 " times: %s", count, how);
  return 1;
}

int judge_report(const judge_t *judge) {
  uint64_t late = count_late(judge);
  int is_lateness_judged = longest_lag_ns(judge) <= MOST_LAG_NS;
  int is_starving_judged = judge->longest_delay_ns <= judge->timeout_ns / 4;

  printf("result echoes=%" PRIu64 " on_time=%" PRIu64 " early=%" PRIu64
         " late=%" PRIu64 " missing=%" PRIu64 " wrong=%" PRIu64
         " garbled=%" PRIu64 " lost=%" PRIu64 " starved=%" PRIu64
         " lateness_median_ms=%.1f lateness_p99_ms=%.1f lateness_max_ms=%.1f"
         " delay_ms=%.1f lag_ms=%.1f allowed_ms=%.1f lateness_judged=%d"
         " starved_judged=%d\n",
         judge->echoes, judge->closed - late, judge->early, late,
         judge->missing, judge->wrong, judge->garbled, judge->lost,
         judge->starved, lateness_ms(judge, 50), lateness_ms(judge, 99),
         ms(judge->lateness_max_ns), ms(judge->longest_delay_ns),
         ms(lag_ns(judge)), ms(judge_allowed_ns(judge)), is_lateness_judged,
         is_starving_judged);
  fflush(stdout);
  int count =
      broken(judge->early, "a connection was closed before its timeout");
  count += broken(is_lateness_judged ? late : 0,
                  "an idle connection was closed too late");
  count += broken(judge->missing, "an idle connection was never closed");
  count += broken(judge->wrong, "a connection in use was closed");
  count += broken(is_starving_judged ? judge->starved : 0,
                  "a peer that spoke got no answer, and was closed");
  count += broken(judge->lost, "an echo did not come back");
  count += broken(judge->garbled, "an echo differs from what was sent");
  if (count == 0 && is_lateness_judged)
    complain("the server kept every promise");
  else if (count == 0)
    complain("the server kept every promise; lateness is not judged, it or the "
             "machine lagged by %.0f ms",
             ms(longest_lag_ns(judge)));
  return count;
}
