#!/bin/sh
# SPDX-License-Identifier: MIT

# usage: debian.sh DIRECTORY
# Installs what packaging/deb made there in a new Debian system, without
# anything else of ours, and runs the packages' own test in it. Where no such
# system is to be had the packages are unpacked into a directory instead.

set -eu
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
  for package in libuvwheel*.deb; do
    dpkg-deb -x "$package" "$work"
  done
  libraries=$(echo "$work"/usr/lib/*-linux-gnu*)
  export AUTOPKGTEST_TMP="$work" PKG_CONFIG_SYSROOT_DIR="$work" \
    PKG_CONFIG_PATH="$libraries/pkgconfig" LD_LIBRARY_PATH="$libraries"
  cd uvwheel-*/
  debian/tests/link
}

set -x
in_a_new_system || { [ ! -e "$work/made" ] && in_a_directory; }
