/* SPDX-License-Identifier: MIT */

/* timer.hpp with -fno-exceptions and with designated options, without a warning
 * (see meson.build). With an argument the tick is too long. */

#include <cpp/timer.hpp>

namespace {

class once {
public:
  explicit once(timing::wheel &wheel) : timer_(wheel, this) {
    timer_.start(std::chrono::milliseconds(5));
  }

private:
  void on_timeout() {
    std::puts("fired");
  }

  timing::timer<&once::on_timeout> timer_;
};

} // namespace

int main(int argc, char **) {
  uv_loop_t loop;

  timing::check(uv_loop_init(&loop));
  {
    timing::wheel wheel(&loop, {.tick_ms = argc > 1 ? UINT64_MAX : 1});
    once timer(wheel);
    uv_run(&loop, UV_RUN_DEFAULT);
  }
  uv_run(&loop, UV_RUN_DEFAULT); /* until the wheel is closed */
  timing::check(uv_loop_close(&loop));
  return EXIT_SUCCESS;
}
