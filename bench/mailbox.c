/* SPDX-License-Identifier: MIT */

/* The cost of having a timer started from another thread: by a mailbox, and by
 * what one would write by hand, a list with a mutex and a uv_async_t; and, to
 * compare, of starts on the loop's own thread.
 *
 * One or two threads post a million requests as fast as they can, each for a
 * timer of its own, and the loop carries them out. This measures real time from
 * the first post to the last completion, and the CPU time of all threads; with
 * more threads than idle cores the former says more about the machine. The ways
 * take turns in each repetition. Both wake the loop only when the list was
 * empty, and both call a function for each request that is completed.
 *
 * Output: one line per result, CSV with the columns of bench.c, on stdout. */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <uv.h>

#include <uvwheel.h>

#define MOST_THREADS 2
#define TIMEOUT_MS 60000

/* What one would write oneself. */
typedef struct order_s {
  struct order_s *next;
  uvwheel_timer_t *timer;
  uint64_t timeout;
} order_t;

typedef struct job_s {
  uvwheel_timer_t timer;
  union {
    uvwheel_post_t post;
    order_t order;
  } request;
} job_t;

static struct {
  unsigned long requests;
  unsigned long repetitions;
} options = {1000000, 5};

static uv_loop_t loop;
static uvwheel_t wheel;
static job_t *jobs;
static unsigned long completed;

static void
die(const char *what)
{
  fprintf(stderr, "mailbox: %s\n", what);
  exit(EXIT_FAILURE);
}

static void
on_timeout(uvwheel_timer_t *timer)
{
  (void)timer;
  die("a timer fired");
}

static void
on_job(int status)
{
  if (status != 0)
    die("a timer was not started");
  if (++completed == options.requests)
    uv_stop(&loop);
}

/* ---- The ways ------------------------------------------------------------ */

static void
start_here(job_t *job)
{
  on_job(uvwheel_timer_start(&job->timer, on_timeout, TIMEOUT_MS, 0));
}

static void
on_post(uvwheel_post_t *post, int status)
{
  if (status != 0)
    die("a request was canceled");
  start_here(post->data);
}

static void
open_mailbox(void)
{
  if (uvwheel_open_mailbox(&wheel) != 0)
    die("no mailbox");
}

static void
post_by_mailbox(job_t *job)
{
  job->request.post.data = job;
  (void)uvwheel_post(&wheel, &job->request.post, on_post);
}

static struct {
  uv_mutex_t mutex;
  uv_async_t async;
  order_t *first;
  order_t **end;
} orders;

static void
on_orders(uv_async_t *async)
{
  order_t *order, *next;

  (void)async;
  uv_mutex_lock(&orders.mutex);
  order = orders.first;
  orders.first = NULL;
  orders.end = &orders.first;
  uv_mutex_unlock(&orders.mutex);
  for (; order != NULL; order = next) {
    next = order->next;
    on_job(uvwheel_timer_start(order->timer, on_timeout, order->timeout, 0));
  }
}

static void
open_mutex(void)
{
  orders.end = &orders.first;
  if (uv_mutex_init(&orders.mutex) != 0 ||
      uv_async_init(&loop, &orders.async, on_orders) != 0)
    die("no mutex");
}

static void
post_by_mutex(job_t *job)
{
  order_t *order = &job->request.order;
  int was_empty;

  order->next = NULL;
  order->timer = &job->timer;
  order->timeout = TIMEOUT_MS;
  uv_mutex_lock(&orders.mutex);
  was_empty = orders.first == NULL;
  *orders.end = order;
  orders.end = &order->next;
  uv_mutex_unlock(&orders.mutex);
  if (was_empty)
    uv_async_send(&orders.async);
}

static void
close_mutex(void)
{
  uv_close((uv_handle_t *)&orders.async, NULL);
  uv_mutex_destroy(&orders.mutex);
}

static void
do_nothing(void)
{
}

struct way {
  const char *name;
  void (*open)(void);
  void (*post)(job_t *job);
  void (*close)(void); /* what uvwheel_close does not */
};

static const struct way ways[] = {
    {"uvwheel mailbox", open_mailbox, post_by_mailbox, do_nothing},
    {"list + mutex + uv_async_t", open_mutex, post_by_mutex, close_mutex}};

static const struct way own_thread = {"uvwheel_timer_start", do_nothing,
                                      start_here, do_nothing};

/* ---- Measuring ----------------------------------------------------------- */

typedef struct sender_s {
  uv_thread_t thread;
  uv_barrier_t *begin;
  void (*post)(job_t *job);
  size_t first;
  size_t end;
} sender_t;

static void
post_all(void *arg)
{
  const sender_t *sender = arg;

  if (sender->begin != NULL)
    uv_barrier_wait(sender->begin);
  for (size_t i = sender->first; i < sender->end; i++)
    sender->post(&jobs[i]);
}

static uint64_t
cpu_ns(void)
{
  struct timespec now;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void
print_result(const struct way *way, unsigned threads, unsigned long repetition,
             uint64_t real_ns, uint64_t used_ns)
{
  static const char *const names[] = {"start on the loop's thread",
                                      "start from one thread",
                                      "start from two threads"};
  double count = (double)options.requests;

  printf("%s,%s,%lu,%lu,%.4g,million per second\n", way->name, names[threads],
         options.requests, repetition, count * 1000 / (double)real_ns);
  printf("%s,%s: CPU,%lu,%lu,%.4g,ns per request\n", way->name, names[threads],
         options.requests, repetition, (double)used_ns / count);
  fflush(stdout);
}

/* Each sender has its share of the jobs. */
static void
make_senders(const struct way *way, sender_t *senders, unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    senders[i] = (sender_t){.post = way->post,
                            .first = options.requests * i / count,
                            .end = options.requests * (i + 1) / count};
}

/* The threads post while the loop runs here; without threads, this one posts.
 */
static void
post_and_wait(sender_t *senders, unsigned threads, uint64_t *real_ns,
              uint64_t *used_ns)
{
  uv_barrier_t begin;

  if (uv_barrier_init(&begin, threads + 1) != 0)
    die("no barrier");
  for (unsigned i = 0; i < threads; i++) {
    senders[i].begin = &begin;
    if (uv_thread_create(&senders[i].thread, post_all, &senders[i]) != 0)
      die("no thread");
  }
  *used_ns = cpu_ns();
  *real_ns = uv_hrtime();
  uv_barrier_wait(&begin);
  if (threads == 0)
    post_all(senders);
  uv_run(&loop, UV_RUN_DEFAULT);
  *real_ns = uv_hrtime() - *real_ns;
  *used_ns = cpu_ns() - *used_ns;
  for (unsigned i = 0; i < threads; i++)
    uv_thread_join(&senders[i].thread);
  uv_barrier_destroy(&begin);
}

static void
measure(const struct way *way, unsigned threads, unsigned long repetition)
{
  sender_t senders[MOST_THREADS];
  uint64_t real_ns, used_ns;

  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, NULL) != 0)
    die("no loop, or no wheel");
  for (size_t i = 0; i < options.requests; i++)
    uvwheel_timer_init(&wheel, &jobs[i].timer);
  completed = 0;
  way->open();
  make_senders(way, senders, threads == 0 ? 1 : threads);
  post_and_wait(senders, threads, &real_ns, &used_ns);
  print_result(way, threads, repetition, real_ns, used_ns);
  way->close();
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  if (uv_loop_close(&loop) != 0)
    die("the loop has handles left");
}

/* ---- Setting up ---------------------------------------------------------- */

static unsigned long
number(const char *text, unsigned long most)
{
  char *end;
  unsigned long value = strtoul(text, &end, 10);

  if (*text < '1' || *text > '9' || *end != '\0' || value > most) {
    fprintf(stderr, "mailbox: %s: not a number from 1 to %lu\n", text, most);
    exit(2);
  }
  return value;
}

static void
read_options(int argc, char **argv)
{
  static const struct option known[] = {
      {"requests", required_argument, NULL, 'q'},
      {"reps", required_argument, NULL, 'r'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0}};
  int option;

  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    if (option == 'q')
      options.requests = number(optarg, 10000000);
    else if (option == 'r')
      options.repetitions = number(optarg, 1000);
    else if (option == 'h') {
      puts("usage: mailbox [--requests N] [--reps R] >> results.csv\n"
           "  --requests N  how many timers are started (1000000)\n"
           "  --reps R      repetitions (5)");
      exit(EXIT_SUCCESS);
    } else
      exit(2);
  }
  if (optind != argc) {
    fprintf(stderr, "mailbox: %s: what is that? try --help\n", argv[optind]);
    exit(2);
  }
}

int
main(int argc, char **argv)
{
  read_options(argc, argv);
  jobs = malloc(options.requests * sizeof *jobs);
  if (jobs == NULL)
    die("no memory");
  for (unsigned long i = 1; i <= options.repetitions; i++) {
    measure(&own_thread, 0, i);
    for (unsigned threads = 1; threads <= MOST_THREADS; threads++)
      for (size_t j = 0; j < sizeof ways / sizeof *ways; j++)
        measure(&ways[j], threads, i);
  }
  free(jobs);
  return EXIT_SUCCESS;
}
