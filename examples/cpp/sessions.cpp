/* SPDX-License-Identifier: MIT */

/* Sessions that end when they are idle, in C++17: see timer.hpp. Three come,
 * and one of them is busy for a while. One throws when it ends. */

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <type_traits>

#include "timer.hpp"

using namespace std::chrono_literals;

namespace
{

/* The lambda captures `this`, so that a session has to stay where it is; its
 * timer sees to that. */
class session
{
public:
  session(timing::wheel &wheel, const std::function<void()> &on_idle)
      : idle_(wheel, [this, on_idle] {
          std::printf("idle after %d words\n", words_);
          on_idle(); /* destroys this session, and the timer whose lambda
                        this is */
        })
  {
    idle_.start(1s);
  }

  void
  receive()
  {
    words_++;
    idle_.refresh();
  }

private:
  timing::timer idle_;
  int words_ = 0;
};

static_assert(!std::is_move_constructible_v<session>);
static_assert(!std::is_copy_constructible_v<session>);

/* Runs the loop until nothing is left to do, whatever callbacks throw. */
void
run(uv_loop_t *loop, timing::wheel &wheel)
{
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

void
serve(uv_loop_t *loop)
{
  timing::wheel wheel(loop);
  std::map<std::string, session> sessions; /* its items never move */

  for (const char *name : {"quiet", "busy", "broken"})
    sessions.try_emplace(name, wheel, [&sessions, name] {
      sessions.erase(name);
      std::printf("ended: %s, %zu left\n", name, sessions.size());
      if (std::string(name) == "broken")
        throw std::runtime_error("a session was broken");
    });
  timing::timer words(wheel, [&sessions, &words, count = 0]() mutable {
    sessions.at("busy").receive();
    if (++count == 5)
      words.stop();
  });
  words.start(300ms, 300ms);
  run(loop, wheel);
}

} // namespace

int
main()
{
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
