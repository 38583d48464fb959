/* SPDX-License-Identifier: MIT */

/* timer.hpp, compiled twice without a warning (see meson.build): as C++17, in
 * virtual time, where callbacks throw; and as C++20 with -fno-exceptions. If
 * there is an argument the tick is too long. */

#include <cpp/timer.hpp>

using namespace std::chrono_literals;

namespace {

/* Says some words, then none, and ends itself. */
class peer {
public:
  peer(timing::wheel &wheel, std::unique_ptr<peer> &self, int words)
      : self_(self), idle_(wheel, this), word_(wheel, this), words_(words) {
    idle_.expect(100ms);
    if (words > 0)
      word_.start(30ms, 30ms);
  }

private:
  void on_word() {
    idle_.refresh();
    if (--words_ == 0)
      word_.stop();
  }

  void on_idle() {
    std::printf("idle, words left: %d\n", words_);
    self_.reset(); /* destroys this */
#ifdef __cpp_exceptions
    throw std::runtime_error("a peer is gone");
#endif
  }

  std::unique_ptr<peer> &self_;
  timing::timer<&peer::on_idle> idle_;
  timing::timer<&peer::on_word> word_;
  int words_;

public:
  static_assert(sizeof(idle_) == sizeof(uvwheel_timer_t));
};

/* Until nothing is left to do, whatever callbacks throw. */
void run(uv_loop_t *loop, timing::wheel &wheel) {
  std::unique_ptr<peer> peers[3];
  bool goes_on = true;

  for (auto &each : peers)
    each = std::make_unique<peer>(wheel, each, &each == &peers[2] ? 5 : 0);
  while (goes_on) {
    goes_on = uv_run(loop, UV_RUN_DEFAULT) != 0;
#ifdef __cpp_exceptions
    try {
      wheel.rethrow();
    } catch (const std::exception &thrown) {
      std::printf("caught: %s\n", thrown.what());
    }
#endif
  }
}

} // namespace

/* An error ends it. NOLINTNEXTLINE(bugprone-exception-escape) */
int main(int argc, char **) {
  uv_loop_t loop;

  timing::check(uv_loop_init(&loop));
  {
    uvwheel_options_t options = {};
    options.tick_ms = argc > 1 ? UINT64_MAX : 1;
    timing::wheel wheel(&loop, options);
    run(&loop, wheel);
  }
  uv_run(&loop, UV_RUN_DEFAULT); /* until the wheel is closed */
  timing::check(uv_loop_close(&loop));
  return EXIT_SUCCESS;
}
