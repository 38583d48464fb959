#!/bin/sh
# SPDX-License-Identifier: MIT

# usage: consume.sh WAY PLACE
# Uses uvwheel from outside, in one of the ways in which projects do:
#
#   by-hand     compiles the sources of PLACE together with its own
#   subproject  is a Meson project with a subproject: PLACE is a source tree,
#               or what packaging/release made
#   libuv       the same, and libuv is a subproject, too
#   installed   installs PLACE, a source tree, and finds it by pkg-config
#   cmake       the same by CMake
#
# Exit status 77: not possible here, the last line says why.

set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(cd "$2" && pwd)
strict='-Wall -Wextra -Wpedantic -Werror'

skip() {
  set +x
  echo "$*"
  exit 77
}

pkg-config --exists libuv || skip "pkg-config knows no libuv"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$here/main.c" .
cp main.c main.cpp

# Words of flags are split on purpose throughout.
# shellcheck disable=SC2046,SC2086
by_hand() {
  ${CC:-cc} -std=gnu11 $strict -I "$place/include" -o program \
    "$place"/src/*.c main.c $(pkg-config --cflags --libs libuv)
  ./program
}

# parent c|cpp: makes a Meson project that can have uvwheel as a subproject
parent() {
  mkdir -p "$1/subprojects/packagecache"
  cp "$here/$1/meson.build" "main.$1" "$1"
  if [ -e "$place/uvwheel.wrap" ]; then
    cp "$place/uvwheel.wrap" "$1/subprojects"
    cp "$place"/uvwheel-*.tar.xz "$1/subprojects/packagecache"
  else
    ln -s "$place" "$1/subprojects/uvwheel"
  fi
}

# build c|cpp shared|static SUBPROJECTS: that parent, without the network
build() {
  meson setup --wrap-mode=nodownload --default-library="$2" \
    --force-fallback-for="$3" "$1-$2" "$1"
  meson compile -C "$1-$2"
  meson test -C "$1-$2" --no-rebuild
}

# Its own test is all that the parent's `meson test` runs.
subproject() {
  for language in c cpp; do
    parent $language
    for kind in shared static; do
      build $language $kind uvwheel
      [ "$(meson test -C $language-$kind --no-rebuild --list)" = consumer ]
    done
  done
}

libuv() {
  for language in c cpp; do
    parent $language
    libuv_source $language/subprojects
  done
  build c static uvwheel,libuv
  build cpp shared uvwheel,libuv
}

# libuv_source SUBPROJECTS: puts libuv there. What its wrap would download may
# be at hand; else Debian's source is taken, with a build file of our own.
# shellcheck disable=SC2046
libuv_source() {
  wrap=$here/../../subprojects/libuv.wrap
  if (cd "$here/../../subprojects/packagecache" &&
      cp $(sed -n 's/^.*_filename = //p' "$wrap") "$work/$1/packagecache") \
     2>/dev/null; then
    cp "$wrap" "$1"
    return
  fi
  fetch_debian_source >log 2>&1 || skip "no source of libuv: $(tail -n 1 log)"
  name=$(echo libuv1_*.orig.tar.gz)
  [ "$name" = libuv1_1.44.2.orig.tar.gz ] || skip "no build file for $name"
  mkdir "$1/packagefiles"
  cp -R "$here/libuv" "$name" "$1/packagefiles"
  cat >"$1/libuv.wrap" <<END
[wrap-file]
directory = libuv1-1.44.2
source_filename = $name
patch_directory = libuv
END
}

# No root, and the machine's own lists stay as they are.
fetch_debian_source() {
  # shellcheck source=/dev/null
  . /etc/os-release
  mkdir -p lists/partial archives/partial
  echo "deb-src http://deb.debian.org/debian $VERSION_CODENAME main" >sources
  set -- -o Dir::State="$work" -o Dir::Cache="$work" \
    -o Dir::Etc::SourceList="$work/sources" -o Dir::Etc::SourceParts=-
  apt-get "$@" update && apt-get "$@" source --download-only libuv1
}

install_place() {
  meson setup --prefix="$work/prefix" --libdir=lib -Dtests=disabled \
    -Dexamples=disabled -Ddocs=disabled build "$place"
  meson install -C build --quiet
}

# shellcheck disable=SC2046,SC2086
installed() {
  install_place
  export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig"
  c="${CC:-cc} -std=c99 -D_POSIX_C_SOURCE=200809L $strict main.c -o program"
  cpp="${CXX:-c++} -std=c++17 $strict main.cpp -o program"
  for compile in "$c" "$cpp"; do
    $compile $(pkg-config --cflags --libs uvwheel)
    LD_LIBRARY_PATH=$work/prefix/lib ./program
  done
  rm prefix/lib/libuvwheel.so* # so that the linker must take the static one
  for compile in "$c" "$cpp"; do
    $compile $(pkg-config --static --cflags --libs uvwheel)
    ./program
  done
}

cmake_finds() {
  cmake -S "$here/cmake" -B parent -DSOURCES="$work" \
    -DCMAKE_PREFIX_PATH="$work/moved" -DWANTED="$1"
}

# The tree is not where it was installed, and is found all the same.
by_cmake() {
  command -v cmake >/dev/null || skip "cmake is missing"
  install_place
  mv prefix moved
  if cmake_finds 0.99 >log 2>&1; then
    return 1
  fi
  grep 'version: 0\.[0-9.]*$' log # CMake names what it found and refused
  cmake_finds 0.1
  cmake --build parent
  (cd parent && ctest --output-on-failure)
}

set -x
case $1 in
  by-hand) by_hand ;;
  subproject) subproject ;;
  libuv) libuv ;;
  installed) installed ;;
  cmake) by_cmake ;;
esac
