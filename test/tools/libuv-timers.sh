#!/bin/sh
# SPDX-License-Identifier: MIT

# libuv-timers.sh SOURCES DIRECTORY: libuv's own timer tests, of its sources
# there, with a timer of a wheel for each uv_timer_t. They are as they were but
# for the names. Leaves in the directory the program `timers`, which runs a test
# by its name, and libuv-timers.list. libuv itself is found by pkg-config.

set -eu

sources=$1
directory=$2
mkdir -p "$directory"
for file in "$sources"/test/test-timer*.c; do
  # The only field of a timer that they read.
  sed '1i #include "libuv-timers.h"
    s/handle->loop/uvwheel_get_loop(uvwheel_timer_get_wheel(handle))/' \
    "$file" >"$directory/$(basename "$file")"
done
sed -n 's/^TEST_IMPL(\(.*\)).*/TEST(\1)/p' "$directory"/test-timer*.c \
  >"$directory/libuv-timers.list"
# shellcheck disable=SC2046 # several words
cc -std=gnu11 -g -o "$directory/timers" -I "$directory" -I test/tools \
  -I include -I "$sources/test" \
  "$directory"/test-timer*.c test/tools/libuv-timers.c src/*.c \
  $(pkg-config --cflags --libs libuv) -lpthread
