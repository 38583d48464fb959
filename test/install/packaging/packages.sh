#!/bin/sh
# SPDX-License-Identifier: MIT

# usage: packages.sh DIRECTORY
# Installs the Debian packages of that directory in a new Debian system, without
# anything else of ours, and runs the packages' own test in it. Where no such
# system is to be had the packages are unpacked into a directory instead, and RPM
# packages always are: the library and what needs it know each other, the manual
# is there, and a program that is linked there does its work.

set -eu
top=$(cd "$(dirname "$0")/../../.." && pwd)
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# $1 is for the shell that mmdebstrap runs.
# shellcheck disable=SC2016
in_a_new_system() {
  # shellcheck source=/dev/null
  . /etc/os-release
  mmdebstrap --variant=apt --format=null --include=gcc,libc6-dev,pkg-config \
    --customize-hook="touch '$work/made'" \
    --customize-hook="sync-in '$PWD' /srv" \
    --customize-hook='chroot "$1" sh -exc "
      cd /srv
      apt-get install --yes --no-install-recommends ./libuvwheel*.deb
      cd uvwheel-*/
      debian/tests/link"' \
    "$VERSION_CODENAME" -
}

in_a_directory() {
  find . -name '*.deb' -exec dpkg-deb -x {} "$work" ';'
  find . -name '*.rpm' -exec sh -c 'rpm2archive - <"$1" | tar -xzC "$0"' \
    "$work" {} ';'
  ls "$work"/usr/share/man/man3/uvwheel_timer_start.3*
  libraries=$(dirname "$(find "$work" -name pkgconfig)")
  export AUTOPKGTEST_TMP="$work" PKG_CONFIG_SYSROOT_DIR="$work" \
    PKG_CONFIG_PATH="$libraries/pkgconfig" LD_LIBRARY_PATH="$libraries"
  cd "$top"
  packaging/debian/tests/link
}

set -x
if [ -n "$(find . -name '*.deb')" ]; then
  in_a_new_system || { [ ! -e "$work/made" ] && in_a_directory; }
else
  rpm -qp --provides ./*/uvwheel-[0-9]*.rpm |
    grep -F 'libuvwheel.so.1(UVWHEEL_1)'
  rpm -qp --requires ./*/uvwheel-devel-*.rpm | grep '^uvwheel.* = '
  in_a_directory
fi
