#!/bin/sh
# SPDX-License-Identifier: MIT

# usage: consume.sh by-hand|subproject|installed SOURCE-DIRECTORY
# Uses the sources from outside, in one of the ways in which projects do.
# Exit status 77: not possible here, the last line says why.

set -eu
top=$(cd "$2" && pwd)
parent=$top/test/consumer/parent
strict='-Wall -Wextra -Wpedantic -Werror'

if ! pkg-config --exists libuv; then
  echo "pkg-config knows no libuv"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Words of flags are split on purpose throughout.
# shellcheck disable=SC2046,SC2086
by_hand() {
  ${CC:-cc} -std=gnu11 $strict -I "$top/include" -o program \
    "$top"/src/*.c "$parent/main.c" $(pkg-config --cflags --libs libuv)
  ./program
}

# The parent's own test is all that its `meson test` runs.
subproject() {
  cp -R "$parent" parent
  mkdir parent/subprojects
  ln -s "$top" parent/subprojects/uvwheel
  for kind in shared static; do
    meson setup --wrap-mode=nodownload --force-fallback-for=uvwheel \
      --default-library=$kind $kind parent
    meson compile -C $kind
    meson test -C $kind --no-rebuild
    [ "$(meson test -C $kind --no-rebuild --list)" = consumer ]
  done
}

# shellcheck disable=SC2046,SC2086
installed() {
  meson setup --prefix="$work/prefix" --libdir=lib -Dtests=disabled \
    -Dexamples=disabled build "$top"
  meson install -C build --quiet
  export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig"
  export LD_LIBRARY_PATH="$work/prefix/lib"
  ${CC:-cc} -std=gnu11 $strict -o program "$parent/main.c" \
    $(pkg-config --cflags --libs uvwheel)
  ./program
  ${CC:-cc} -std=gnu11 -o program "$parent/main.c" \
    $(pkg-config --cflags uvwheel) prefix/lib/libuvwheel.a \
    $(pkg-config --libs libuv)
  LD_LIBRARY_PATH='' ./program
  ${CXX:-c++} -std=c++17 $strict -x c++ "$parent/main.c" -o program \
    $(pkg-config --cflags --libs uvwheel)
  ./program
}

set -x
case $1 in
  by-hand) by_hand ;;
  subproject) subproject ;;
  installed) installed ;;
esac
