/* SPDX-License-Identifier: MIT */

/* timer.hpp in C++17: sessions that end when they are idle. Three come, and one
 * of them is busy for a while. One throws when it ends. */

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include <cpp/timer.hpp>

using namespace std::chrono_literals;

namespace {

class server;

class session {
public:
  session(timing::wheel &wheel, server &owner, std::string name)
      : owner_(owner), name_(std::move(name)), idle_(wheel, this) {
    idle_.expect(1s);
  }

  void receive() {
    words_++;
    idle_.refresh();
  }

private:
  void on_idle();

  server &owner_;
  std::string name_;
  timing::timer<&session::on_idle> idle_;
  int words_ = 0;
};

class server {
public:
  explicit server(timing::wheel &wheel) : words_(wheel, this) {
    for (const char *name : {"quiet", "busy", "broken"})
      sessions_.try_emplace(name, wheel, *this, name);
    words_.start(300ms, 300ms);
  }

  /* Destroys the session, also in the callback of its own timer. */
  void end(const std::string &name) {
    sessions_.erase(name);
    std::printf("ended: %s after %d words in all, %zu left\n", name.c_str(),
                count_, sessions_.size());
    if (name == "broken")
      throw std::runtime_error("a session was broken");
  }

private:
  void on_word() {
    sessions_.at("busy").receive();
    if (++count_ == 5)
      words_.stop();
  }

  std::map<std::string, session> sessions_; /* its items never move */
  timing::timer<&server::on_word> words_;
  int count_ = 0;

public:
  static_assert(sizeof(words_) == sizeof(uvwheel_timer_t));
};

void session::on_idle() {
  std::printf("idle after %d words\n", words_);
  owner_.end(std::string(name_)); /* destroys this */
}

/* Until nothing is left to do, whatever callbacks throw. */
void serve(uv_loop_t *loop) {
  timing::wheel wheel(loop);
  server served(wheel);
  bool goes_on = true;

  while (goes_on) {
    goes_on = uv_run(loop, UV_RUN_DEFAULT) != 0;
    try {
      wheel.rethrow();
    } catch (const std::exception &thrown) {
      std::printf("caught: %s\n", thrown.what());
    }
  }
}

} // namespace

int main() {
  uv_loop_t loop;

  try {
    timing::check(uv_loop_init(&loop));
    serve(&loop);
    uv_run(&loop, UV_RUN_DEFAULT); /* until the wheel is closed */
    timing::check(uv_loop_close(&loop));
  } catch (const std::exception &thrown) {
    std::fprintf(stderr, "sessions: %s\n", thrown.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
