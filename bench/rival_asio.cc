// SPDX-License-Identifier: MIT

// Boost.Asio, one thread. A wait that is cancelled still calls its handler, at
// the next iteration of the loop; those calls belong to the operation that
// cancelled, so the loop iterates whenever it looks at the clock.

#include "bench.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <new>

namespace
{

using boost::asio::io_context;
using boost::asio::steady_timer;
using milliseconds = std::chrono::milliseconds;

std::unique_ptr<io_context> context;
milliseconds timeout;

void
wait_for(steady_timer *timer, milliseconds span)
{
  timer->expires_after(span);
  timer->async_wait([timer](const boost::system::error_code &error) {
    if (error)
      return;
    bench_fired++;
    if (bench_rearm_ms != nullptr)
      wait_for(timer, milliseconds(bench_next_rearm_ms()));
  });
}

void
init_one(void *timer)
{
  new (timer) steady_timer(*context);
}

void
start_one(void *timer)
{
  wait_for(static_cast<steady_timer *>(timer), timeout);
}

void
refresh_one(void *timer)
{
  wait_for(static_cast<steady_timer *>(timer), milliseconds(BENCH_TIMEOUT_MS));
}

void
stop_one(void *timer)
{
  static_cast<steady_timer *>(timer)->cancel();
}

BENCH_OPERATIONS

void
set_times(uint64_t timeout_ms, uint64_t)
{
  timeout = milliseconds(timeout_ms);
}

void
iterate()
{
  context->restart();
  context->poll();
}

void
release(const uint32_t *order, size_t count)
{
  iterate();
  bench_each(order, count, [](void *timer) {
    static_cast<steady_timer *>(timer)->~steady_timer();
  });
}

void
run(uint64_t ms)
{
  steady_timer end(*context, milliseconds(ms));

  end.async_wait([](const boost::system::error_code &) { context->stop(); });
  context->restart();
  context->run();
}

void
open_context()
{
  context = std::make_unique<io_context>(1);
}

void
close_context()
{
  context.reset();
}

const struct operations asio_operations = {
    sizeof(steady_timer),
    close_context,
    set_times,
    init,
    start,
    refresh,
    stop,
    stop_start,
    release,
    iterate,
    iterate,
    run,
    nullptr,
    nullptr,
};

} // namespace

extern const struct rival rival_asio = {
    "Boost.Asio steady_timer",
    TRAIT_TIMEOUTS | TRAIT_LOOP,
    open_context,
    &asio_operations,
};
