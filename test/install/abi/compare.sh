#!/bin/sh
# SPDX-License-Identifier: MIT

# usage: compare.sh list NM LIBRARY
#        compare.sh symbols NM READELF LIBRARY
#        compare.sh types LIBRARY
# Fails if the library has another soname, exports other symbols, or has other
# types and functions, than are recorded: a program that was linked before may
# break by that, and what was added is a promise from now on. accept, beside this,
# records it anew. `list` prints what is exported, as it is recorded.

set -eu
here=$(cd "$(dirname "$0")" && pwd)
record=$here/../../../packaging/debian/libuvwheel0.symbols

changed() {
  echo "The ABI has changed, see above. To accept it: test/install/abi/accept"
  exit 1
}

# Each with the version that it carries. The versions are symbols as well, or
# are not, depending on the linker.
list_symbols() {
  "$1" -D --defined-only --format=posix "$2" |
    awk '$2 != "A" { sub("@@", "@", $1); print $1 }' | LC_ALL=C sort
}

# Recorded in the way of Debian: the soname, then the symbols, sorted, each with
# the version of uvwheel that brought it.
compare_symbols() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  {
    sed -n '1s/ .*//p' "$record"
    sed -n 's/^ \([^@]*@[^ ]*\) .*/\1/p' "$record" | grep -v '^UVWHEEL_'
  } >"$work/recorded"
  {
    "$2" -d "$3" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p'
    list_symbols "$1" "$3"
  } >"$work/exported"
  (cd "$work" && diff -u recorded exported) || changed
}

# Recorded as uvwheel.abi, on x86_64. Only what changed in uvwheel's own types
# counts, not in those of libuv and the C library. Where a struct holds one of
# libuv's that has other private fields but the same size, abidiff names that
# struct and has nothing to tell about it.
compare_types() {
  status=0
  report=$(abidiff --leaf-changes-only --no-show-locs \
    --suppressions "$here/others.abignore" "$here/uvwheel.abi" "$1") ||
    status=$?
  [ $status -ne 0 ] || return 0
  echo "$report"
  # 4: there are changes, and they are none that must break a program
  if [ $status -ne 4 ] || echo "$report" | sed '1,/^$/d' | grep -qvE -e '^$' \
    -e "^'struct uvwheel_([a-z]+_)?s' changed:$" \
    -e "^  (type size hasn't changed|there are data member changes:)$"; then
    changed
  fi
}

way=$1
shift
case $way in
  list) list_symbols "$@" ;;
  symbols) compare_symbols "$@" ;;
  types) compare_types "$@" ;;
esac
