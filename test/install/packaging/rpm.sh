#!/bin/sh
# SPDX-License-Identifier: MIT

# usage: rpm.sh DIRECTORY
# What rpmbuild made below that directory, unpacked into another one: the library
# and what needs it know each other, the manual is there, and a program that is
# linked there does its work.

set -eux
packages=$(cd "$1" && pwd)
cd "$(dirname "$0")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "$packages" -name '*.rpm' -exec sh -c \
  'for package; do rpm2archive - <"$package" | tar -xzC "$0"; done' "$work" {} +

rpm -qp --provides "$packages"/*/uvwheel-[0-9]*.rpm |
  grep -F 'libuvwheel.so.1(UVWHEEL_1)'
rpm -qp --requires "$packages"/*/uvwheel-devel-*.rpm | grep '^uvwheel.* = '
ls "$work"/usr/share/man/man3/uvwheel_timer_start.3*
libraries=$(dirname "$work"/usr/lib*/pkgconfig)
export AUTOPKGTEST_TMP="$work" PKG_CONFIG_SYSROOT_DIR="$work" \
  PKG_CONFIG_PATH="$libraries/pkgconfig" LD_LIBRARY_PATH="$libraries"
packaging/debian/tests/link
