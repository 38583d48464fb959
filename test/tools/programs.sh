# SPDX-License-Identifier: MIT
# shellcheck shell=sh

# What the scripts that run the example programs have in common. For POSIX sh;
# source it with $top, the project's directory, set.
# shellcheck disable=SC2154 # it is

complain() {
  echo "${0##*/}: $*" >&2
}

# fail STATUS TEXT...: ends the script with a complaint
fail() {
  code=$1
  shift
  complain "$@"
  exit "$code"
}

# value_of OPTION [VALUE]...: ends the script unless there is one
value_of() {
  [ $# -ge 2 ] || fail 2 "$1 takes a value"
}

# number OPTION TEXT MAXIMUM [MINIMUM]: ends the script unless the text is one
number() {
  case $2 in
    '' | 0* | *[!0-9]* | ?????????*) ;;
    *) ! { [ "$2" -ge "${4-1}" ] && [ "$2" -le "$3" ]; } || return 0 ;;
  esac
  fail 2 "$1 takes a number from ${4-1} to $3, not '$2'"
}

# Makes $dir for temporary files. However the script ends from here on, that
# directory and what runs in the background end with it.
begin() {
  dir=$(mktemp -d)
  trap stop_all EXIT
  trap 'echo >&2; complain interrupted; exit 130' INT
  trap 'complain terminated; exit 143' TERM HUP
}

# Asks the shell what runs: a signal may come between a start and its "$!".
stop_jobs() {
  running=$(mktemp "$dir/jobs.XXXXXX")
  jobs -p >"$running"
  # shellcheck disable=SC2046 # none or some process ids
  kill $(cat "$running") 2>/dev/null || true
  wait
}

stop_all() {
  stop_jobs
  rm -rf "$dir"
}

# programs_in BUILD DIRECTORY [SERVER LOAD]: says where the programs are (the
# idle server and its load, unless others are named), in $built. They are built
# there, in a directory of the project, unless another one is given.
programs_in() {
  built=$2
  if [ -z "$built" ]; then
    build_release "$1" -Dexamples=enabled -Dbenchmarks=disabled
    built=$top/$1
  fi
  for name in "examples/${3-idle-server}" "tools/load/${4-idle-load}"; do
    [ -x "$built/$name" ] || fail 1 "there is no $built/$name"
  done
}

# build_release DIRECTORY OPTION...: without the tests, or only the $targets of
# these. Meson remembers what it did not find: the directory is made anew if
# something was installed since that the examples can use.
build_release() {
  # shellcheck source=test/tools/tools.sh
  . "$top/test/tools/tools.sh"
  need awk cc meson ninja pkg-config libuv ${targets:+check}
  echo "Building in $1 ..."
  release=$top/$1
  shift
  setup="$* $(found_of microhttpd uthash)"
  [ "$(cat "$release/.setup" 2>/dev/null)" = "$setup" ] || rm -rf "$release"
  # shellcheck disable=SC2086 # several words
  if ! { meson setup --buildtype=release -Dtests=disabled \
           ${targets:+-Dtests=enabled -Dexamples=disabled} "$@" "$release" \
           "$top" &&
         meson compile -C "$release" ${targets-}; } >"$dir/build" 2>&1; then
    cat "$dir/build" >&2
    fail 1 "the build failed, see above"
  fi
  echo "$setup" >"$release/.setup"
}

# start_listening SERVER FILE OPTION...: its output goes to the file. Sets
# $server, the process, and $port, on which it listens. $under, if set, is the
# command that runs it.
start_listening() {
  listener=$1
  output=$2
  shift 2
  : >"$output" # so that it can be read before the server has begun
  # shellcheck disable=SC2086 # a command with its arguments, or nothing
  ${under-} "$built/examples/$listener" --port 0 "$@" >"$output" &
  server=$!
  until port=$(sed -n 's/^listening on .*://p' "$output") &&
      [ -n "$port" ]; do
    kill -0 "$server" 2>/dev/null || fail 1 "the server did not start"
    sleep 0.1
  done
}
