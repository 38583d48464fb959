#!/bin/sh
# SPDX-License-Identifier: MIT

# usage: compare.sh symbols NM LIBRARY
#        compare.sh types LIBRARY
# Fails if the library exports other symbols, or has other types and functions,
# than are recorded: a program that was linked before may break by that, and
# what was added is a promise from now on. test/abi/accept records it anew.

set -eu
here=$(cd "$(dirname "$0")" && pwd)

changed() {
  echo "The ABI has changed, see above. If that is wanted: test/abi/accept"
  exit 1
}

# Recorded as packaging/debian/libuvwheel0.symbols: sorted, each with the
# version that brought it.
compare_symbols() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  sed -n 's/^ \(.*\)@Base .*/\1/p' \
    "$here/../../packaging/debian/libuvwheel0.symbols" >"$work/recorded"
  "$1" -D --defined-only --format=posix "$2" | cut -d ' ' -f 1 |
    LC_ALL=C sort >"$work/exported"
  (cd "$work" && diff -u recorded exported) || changed
}

# Recorded as uvwheel.abi, on x86_64. Only what changed in uvwheel's own types
# counts, not in those of libuv and the C library.
compare_types() {
  abidiff --leaf-changes-only --no-show-locs \
    --suppressions "$here/others.abignore" "$here/uvwheel.abi" "$1" || changed
}

case $1 in
  symbols) compare_symbols "$2" "$3" ;;
  types) compare_types "$2" ;;
esac
