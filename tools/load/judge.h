/* SPDX-License-Identifier: MIT */

/* The judge of idle-load: did the server keep its promises about time?
 *
 * It is another process than the server, so it sees everything a little later
 * than it happened there. This is why it accuses no server wrongly:
 *
 * - Early. "heard" is a moment of the client's clock BEFORE it called connect()
 *   or write() for the last thing that the server certainly got (a message
 *   counts once its echo is back), and "closed" is not before the server
 *   closed: closed - heard is never shorter than the idle time that the server
 *   granted. If even that is shorter than the timeout, the server was early,
 *   however slow client, server and network may be.
 *
 * - Late. For the same reason lateness reads too long, by the lag of the
 *   machine. The judge measures that: how late its own loop was at most (it is
 *   to be woken every 10 ms), and how long an echo took at most (one is asked
 *   for every 10 ms), which includes the lateness of the server's loop. A close
 *   is late only if it came after timeout + tick + these. A loop that is never
 *   quiet may take up to 500 ms more, to hear its peers first: udp-load, whose
 *   peers speak as fast as the server answers, allows for that.
 *
 * - Not judged. If one of the two lags is over 100 ms the server may have
 *   stalled for longer than was seen here, and have put timers back. Then, and
 *   so with --stall, late closes are counted but break no promise. The server's
 *   stall_ms is more than twice as long: a shorter lag makes no timer later.
 *
 * - Starved. A connection that spoke, but got no answer for a whole timeout,
 *   was closed by the server's timer. A peer that speaks is heard before its
 *   timer fires, so that breaks a promise, also with --stall, when the server
 *   is blocked while peers speak on. Only the load's own delay is an excuse,
 *   since then they did not speak. A peer may read an echo that late, pause for
 *   up to 3/8 of the timeout, and then speak that late again. So if the delay
 *   was longer than a quarter of the timeout, they are counted but not judged.
 */

#ifndef LOAD_JUDGE_H
#define LOAD_JUDGE_H

#include <stdint.h>

/* ---- The command lines of idle-load and udp-load ------------------------- */

/* Each has an address of its own, see udp-peers.h. */
#define PEERS_MAX 16000000

enum { IDLE_LOAD = 1, UDP_LOAD = 2 };

typedef struct options_s {
  uint16_t port;
  uint64_t count; /* of connections, or of peers */
  uint64_t chatty_percent;
  uint64_t timeout_ms; /* 0: the server has none */
  uint64_t tick_ms;
  uint64_t interval_ms; /* of udp-load: 0, as fast as the server answers */
  uint64_t first_ms;    /* of idle-load: from a connection to its first word */
  uint64_t duration_s;
  int are_together; /* the silent ones speak at the same time */
  uint64_t stall_s; /* 0: none */
  uint64_t pid;     /* of the server, for that */
  int stalls_by_usr1;
  uint64_t patience_ms;
} options_t;

/* Fills *options for one of them, or ends the program after a complaint or
 * --help. */
void parse_options(int argc, char **argv, unsigned load, options_t *options);

/* ---- The judge ----------------------------------------------------------- */

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S (1000 * NS_PER_MS)

#define PACE_MS 10 /* how often it is to be woken */

/* Lateness is counted in steps; more than a minute counts for the last one. */
#define LATENESS_STEP_NS (NS_PER_MS / 10)
#define LATENESS_STEPS 600000

typedef struct judge_s {
  const options_t *options;
  uint64_t timeout_ns; /* 0: the server should close no connection */
  uint64_t tick_ns;
  int is_never_quiet; /* the server's loop, whose timers may then wait */

  uint64_t closed; /* silent connections, not before their timeout */
  uint64_t lateness[LATENESS_STEPS]; /* how many of them were how late */
  uint64_t lateness_max_ns;
  uint64_t early;
  uint64_t missing; /* silent connections that were never closed */
  uint64_t wrong;   /* chatty connections that were closed       */
  uint64_t starved;
  uint64_t garbled; /* echoes that differ from what was sent */
  uint64_t lost;    /* echoes that did not come              */
  uint64_t echoes;
  uint64_t longest_echo_ns;
  uint64_t awake_ns;         /* when the client's loop last woke him */
  uint64_t longest_delay_ns; /* of the client's own loop       */

  uint64_t blocked_from_ns; /* when the server was, or 0 */
  uint64_t blocked_to_ns;   /* and when that ended, or 0 */
} judge_t;

/* Begins with one that is zeroed. */
void judge_init(judge_t *judge, const options_t *options);

/* The server has closed a connection that it heard then. It was to
 * stay open if it is chatty; it may have been waiting for an echo. */
void judge_closed(judge_t *judge, int chatty, int waiting, uint64_t heard_ns,
                  uint64_t closed_ns);

/* The server did something now that shows that it has read what was said then:
 * it closed the connection. */
void judge_answer(judge_t *judge, uint64_t sent_ns, uint64_t now_ns);

/* Or it sent the echo. */
void judge_echo(judge_t *judge, uint64_t sent_ns, uint64_t now_ns);

/* To be called every PACE_MS: its lateness is the lag of the machine. Returns
 * the time. */
uint64_t judge_awake(judge_t *judge);

/* How late a close may be seen, given all that has been measured. */
uint64_t judge_allowed_ns(const judge_t *judge);

/* With --stall the server is blocked for a time while the peers speak on:
 * SIGSTOP freezes it until SIGCONT, as a paused machine or a swap storm would;
 * at SIGUSR1 idle-server --block blocks itself. To be called from time to time
 * while all run, since running_ns. Returns 0, or an errno if the server cannot
 * be signalled. */
int judge_stall(judge_t *judge, uint64_t running_ns, uint64_t now_ns);

/* Is the server blocked now? */
int judge_stalls(const judge_t *judge);

/* Ends that. */
void judge_end_stall(judge_t *judge);

/* Prints a line "result key=value ...", and the verdict on stderr: a line for
 * each broken promise, or one line. Returns how many promises were broken. */
int judge_report(const judge_t *judge);

#endif /* LOAD_JUDGE_H */
