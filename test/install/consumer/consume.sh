#!/bin/sh
# SPDX-License-Identifier: MIT

# usage: consume.sh WAY PLACE
# Uses uvwheel from outside, in one of the ways in which projects do. PLACE is
# what packaging/release made:
#
#   two-files   compiles its uvwheel.c and uvwheel.h together with its own, by
#               every compiler and standard there is
#   subproject  is a Meson project with a subproject
#   cmake-source  is a CMake project of which the sources are a part
#   installed   installs PLACE, here a source tree, and finds it by pkg-config
#               and by CMake

set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(cd "$2" && pwd)
strict='-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow
  -Wundef -Wcast-align -Wwrite-strings -Wpointer-arith -Wvla -Wformat=2 -Werror'
strict_c='-Wstrict-prototypes -Wold-style-definition'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$here/main.c" .
cp main.c main.cpp

# accepts COMPILER STANDARD LANGUAGE: does it know the standard?
accepts() {
  command -v "$1" >/dev/null &&
    echo 'int main(void) { return 0; }' | "$1" "-std=$2" -x "$3" -fsyntax-only -
}

# each_standard LANGUAGE 'COMPILER...' STANDARD...: the program in each of them,
# with what each C compiler made of uvwheel.c; $made counts the programs. Words of
# flags are split on purpose throughout.
# shellcheck disable=SC2046,SC2086
each_standard() {
  language=$1 compilers=$2
  shift 2
  for compiler in $compilers; do
    for standard in "$@"; do
      accepts "$compiler" "$standard" "$language" 2>/dev/null || continue
      for object in uvwheel-*.o; do
        $compiler -std=$standard -D_POSIX_C_SOURCE=200809L $strict \
          -I "$place" -x $language main.c -x none "$object" -o program \
          $(pkg-config --cflags --libs libuv)
        ./program
        made=$((made + 1))
      done
    done
  done
}

# shellcheck disable=SC2046,SC2086
two_files() {
  for compiler in ${CC:-gcc clang}; do
    for standard in gnu11 gnu17 gnu23 gnu2x; do
      accepts "$compiler" "$standard" c 2>/dev/null || continue
      $compiler -std=$standard -O2 $strict $strict_c -c "$place/uvwheel.c" \
        -o "uvwheel-$(basename "$compiler").o" \
        $(pkg-config --cflags libuv)
    done
  done
  made=0
  each_standard c "${CC:-gcc clang}" c99 c11 c17 c23 c2x
  each_standard c++ "${CXX:-g++ clang++}" c++11 c++14 c++17 c++20 c++23
  [ "$made" -gt 0 ]
}

# parent c|cpp: makes a Meson project that can have uvwheel as a subproject
parent() {
  mkdir -p "$1/subprojects/packagecache"
  cp "main.$1" "$1"
  cp "$place/uvwheel.wrap" "$1/subprojects"
  cp "$place"/uvwheel-*.tar.xz "$1/subprojects/packagecache"
  standard='c99'
  [ "$1" = c ] || standard='c++17'
  cat >"$1/meson.build" <<END
project('parent', '$1',
  default_options: ['warning_level=3', 'werror=true', '$1_std=$standard'])
test('consumer',
  executable('consumer', 'main.$1',
    c_args: '-D_POSIX_C_SOURCE=200809L', # or strict c99 cannot include <uv.h>
    dependencies: dependency('uvwheel'),
    install: true))
END
}

# subproject c|cpp shared|static: without the network. The parent's own test is
# all that its `meson test` runs.
subproject() {
  parent "$1"
  meson setup --wrap-mode=nodownload --default-library="$2" \
    --force-fallback-for=uvwheel "$1-$2" "$1"
  meson compile -C "$1-$2"
  meson test -C "$1-$2" --no-rebuild
  # Newer ones of Meson say whose it is. None of uvwheel's own is there.
  meson test -C "$1-$2" --no-rebuild --list >list
  [ "$(sed 's/^parent://' list)" = consumer ]
  DESTDIR=$work/root meson install -C "$1-$2" --skip-subprojects
  installed=$(find root -type f)
  [ "$(basename "$installed" .exe)" = consumer ] # and nothing else
  [ "$2" = shared ] || "$installed"
  rm -r root
}

# by_pkg_config [--static]
# shellcheck disable=SC2046,SC2086
by_pkg_config() {
  for compile in \
    "${CC:-cc} -std=c99 -D_POSIX_C_SOURCE=200809L $strict main.c" \
    "${CXX:-c++} -std=c++17 $strict main.cpp"; do
    $compile -o program $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig \
      pkg-config "$@" --cflags --libs uvwheel)
    LD_LIBRARY_PATH=$prefix/lib ./program
  done
}

# cmake_finds VERSION LIBRARIES: in the directory moved
cmake_finds() {
  cmake -S "$here/cmake" -B parent -DSOURCES="$work" \
    -DCMAKE_PREFIX_PATH="$work/moved" -DWANTED="$1" -DLIBRARIES="$2"
}

cmake_uses() {
  cmake_finds 1.0 "$1"
  cmake --build parent
  (cd parent && ctest --output-on-failure)
}

# The last one finds the tree where it was not installed.
installed() {
  prefix=$work/prefix
  meson setup --prefix="$prefix" --libdir=lib -Dtests=disabled \
    -Dexamples=disabled -Ddocs=disabled build "$place"
  meson install -C build --quiet
  cp -R prefix moved
  version=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion uvwheel)
  [ -e "$prefix/lib/libuvwheel.so.$version" ] # numbers alone, released or not
  by_pkg_config
  rm prefix/lib/libuvwheel.so* # so that the linker must take the static one
  by_pkg_config --static
  rm -r prefix

  if cmake_finds 1.99 uvwheel >log 2>&1; then
    return 1
  fi
  grep 'version: 1\.[0-9.]*$' log # CMake names what it found and refused
  cmake_uses 'uvwheel;uvwheel_static'
}

# source_by_cmake BUILD PLACE OPTION...: as a part of a CMake project
source_by_cmake() {
  directory=$1 part=$2
  shift 2
  cmake -S "$here/cmake-source" -B "$directory" -DSOURCES="$work" \
    -DPLACE="$part" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -Werror=dev "$@"
  cmake --build "$directory" -j 2
  (cd "$directory" && ctest --output-on-failure)
}

# A project that exports a library of its own installs uvwheel, too.
installs() {
  rm -rf moved parent
  cmake --build "$1" --target install
  mv prefix moved
  cmake_uses uvwheel
}

cmake_source() {
  set -- -DUVWHEEL_INSTALL=ON -DCMAKE_INSTALL_PREFIX="$work/prefix"
  tar -xJf "$place"/uvwheel-*.tar.xz
  tree=$(echo "$work"/uvwheel-*/)
  source_by_cmake fetched "$(echo "$place"/uvwheel-*.tar.xz)" "$@"
  installs fetched
  source_by_cmake static "$tree" -DOWN_LIBUV=ON -DUVWHEEL_CHECKS=ON
  source_by_cmake shared "$tree" -DBUILD_SHARED_LIBS=ON "$@"
  installs shared

  # By the flags that Meson gives it, too.
  grep -e '-fno-tree-slp-vectorize.* -O2.*/src/uvwheel\.c' \
    shared/compile_commands.json
  "$tree/test/install/exports" shared/uvwheel/libuvwheel.so
}

set -x
case $1 in
  two-files) two_files ;;
  subproject)
    subproject c shared
    subproject cpp static ;;
  installed) installed ;;
  cmake-source) cmake_source ;;
esac
