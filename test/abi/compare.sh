#!/bin/sh
# SPDX-License-Identifier: MIT

# usage: compare.sh NM LIBRARY SYMBOLS
# Fails unless the library exports exactly what the sorted list names: a
# missing symbol breaks programs, an additional one is a promise nobody made.

set -eu
exported=$("$1" -D --defined-only --format=posix "$2" | cut -d ' ' -f 1 |
  LC_ALL=C sort)
if ! printf '%s\n' "$exported" | diff -u "$3" -; then
  echo "the library exports something else than $3 names" >&2
  exit 1
fi
