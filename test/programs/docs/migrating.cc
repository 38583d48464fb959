/* SPDX-License-Identifier: MIT */

/* Where the fragment of docs/migrating.md belongs. */

#include "../../../examples/cpp/timer.hpp"

using namespace std::chrono_literals;

#include "migrating-1.cc"
