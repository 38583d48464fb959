/* SPDX-License-Identifier: MIT */

/* uvwheel from C++17: a wheel, and timers that call a member function of what
 * they are part of and clean up after themselves:
 *
 *   class session {
 *     void on_idle();
 *     timing::timer<&session::on_idle> idle_;
 *   };
 *   idle_.expect(30s);   when it is accepted
 *   idle_.refresh();     at each packet
 *
 * Copy this file and change it as you like; it is a pattern, not a part of the
 * library.
 *
 * Why it is as it is:
 *
 * - The member function is part of the type, and the pointer to the owner is
 *   the timer's `data`: a timer has the size of a uvwheel_timer_t, and nothing
 *   is allocated. With a std::function each would be larger.
 * - A timer cannot be moved or copied, nor what has it as a member: while it is
 *   active its neighbours in the wheel point to it, and it points to its owner.
 *   Keep such objects in a std::map or std::list, or behind a std::unique_ptr.
 * - The loop mostly frees the memory of a wheel in a callback, after the
 *   destructor. So it has to run once more, as for every handle of libuv.
 * - No exception may pass through libuv, which is C. So an exception of a
 *   callback is caught and kept, uv_run is made to return, and wheel::rethrow
 *   throws it again. Timers that are due at the same time may fire before
 *   that; if one of them throws as well, the first exception counts.
 * - With -fno-exceptions an error of a call ends the program.
 */

#ifndef EXAMPLES_CPP_TIMER_HPP
#define EXAMPLES_CPP_TIMER_HPP

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>

#include <uvwheel.h>

namespace timing {

inline void check(int status) {
  if (status >= 0)
    return;
#ifdef __cpp_exceptions
  throw std::runtime_error(uv_strerror(status));
#else
  std::fprintf(stderr, "uvwheel: %s\n", uv_strerror(status));
  std::abort();
#endif
}

class wheel {
public:
  explicit wheel(uv_loop_t *loop, const uvwheel_options_t &options = {}) {
    auto made = std::make_unique<state>();

    check(uvwheel_init(loop, &made->wheel, &options));
    made->wheel.data = made.get();
    state_.reset(made.release());
  }

  /* Call it when uv_run has returned. */
  void rethrow() {
    if (state_->thrown)
      std::rethrow_exception(std::exchange(state_->thrown, nullptr));
  }

private:
  template <auto> friend class timer;

  struct state {
    uvwheel_t wheel;
    std::exception_ptr thrown; /* by a callback, the first one */
  };

  struct closer {
    void operator()(state *closing) const noexcept {
      uvwheel_close(&closing->wheel, [](uvwheel_t *closed) {
        delete static_cast<state *>(closed->data);
      });
    }
  };

  std::unique_ptr<state, closer> state_;
};

template <auto Method> class timer;

/* It may outlive its wheel, which stops it, but must not be started then. */
template <typename Owner, void (Owner::*Method)()> class timer<Method> {
public:
  using duration = std::chrono::milliseconds;

  /* Throws if the wheel is closing because other code has closed its handles,
   * as many do in uv_walk. So do expect and start, also at max_timers. */
  timer(wheel &wheel, Owner *owner) {
    check(uvwheel_timer_init(&wheel.state_->wheel, &timer_));
    timer_.data = owner;
  }

  timer(const timer &) = delete;
  timer &operator=(const timer &) = delete;

  ~timer() {
    uvwheel_timer_close(&timer_);
  }

  /* For what a peer sends, and refreshes: it measures silence. */
  void expect(duration timeout) {
    check(uvwheel_timer_expect(&timer_, fire, milliseconds(timeout)));
  }

  /* For what the owner sends, deadlines and leases: an appointment. */
  void start(duration timeout, duration repeat = duration::zero()) {
    check(uvwheel_timer_start(&timer_, fire, milliseconds(timeout),
                              milliseconds(repeat)));
  }

  /* Throws if the timer is not active. In its own callback one without a repeat
   * is not: there, to give the peer more time, expect it again. */
  void refresh() {
    check(uvwheel_timer_refresh(&timer_));
  }

  void stop() noexcept {
    (void)uvwheel_timer_stop(&timer_);
  }

  bool is_active() const noexcept {
    return uvwheel_timer_is_active(&timer_) != 0;
  }

private:
  /* What is in the past fires at the next tick. */
  static uint64_t milliseconds(duration time) {
    return static_cast<uint64_t>(std::max(time, duration::zero()).count());
  }

  /* The border. The callback may destroy the timer: afterwards only what is
   * held here is used. */
  static void fire(uvwheel_timer_t *fired) noexcept {
    auto *owner = static_cast<Owner *>(fired->data);
#ifdef __cpp_exceptions
    uvwheel_t *of = uvwheel_timer_get_wheel(fired);
    auto *state = static_cast<wheel::state *>(of->data);

    try {
      (owner->*Method)();
    } catch (...) {
      if (!state->thrown)
        state->thrown = std::current_exception();
      uv_stop(uvwheel_get_loop(of));
    }
#else
    (owner->*Method)();
#endif
  }

  uvwheel_timer_t timer_;
};

} // namespace timing

#endif /* EXAMPLES_CPP_TIMER_HPP */
