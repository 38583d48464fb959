#!/bin/sh
# SPDX-License-Identifier: MIT

# usage: release.sh DIRECTORY
# A dry run of the last commit makes the same as that in the directory, whoever
# makes it and where. So does the release, once the words are filled in and the
# files prepared; until then it is refused.

set -eu
files=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "$*" >&2
  exit 1
}

# says TEXT...: the last command did
says() {
  for text; do
    grep -q -- "$text" log || fail "no word of '$text'"
  done
}

# refuses STATUS TEXT ARGUMENT...: exits with that status, says that text and
# leaves nothing
refuses() {
  expected=$1 text=$2
  shift 2
  status=0
  "$@" >log 2>&1 || status=$?
  [ "$status" -eq "$expected" ] || fail "status $status of: $*"
  says "$text"
  [ ! -e refused ] || fail "refused, and yet made something: $*"
}

# makes_the_same COMMAND...: it makes what another run has made
makes_the_same() {
  "$@" again >log 2>&1 || { cat log; fail "failed: $*"; }
  diff -r "$files" again
}

(umask 077 && makes_the_same "$top/packaging/release" --dry-run)
(cd again && sha256sum --check --strict SHA256SUMS)
find again -type f ! -name SHA256SUMS -printf '%P\n' | sort >made
sed 's/^[^ ]*  //' again/SHA256SUMS | sort | diff made - ||
  fail "these files have no checksum"
python3 -m json.tool again/uvwheel-*.spdx.json >sbom
grep -q "$(sha256sum again/uvwheel-*.tar.xz | cut -d ' ' -f 1)" sbom ||
  fail "the bill of materials is of another tarball"
rm -r again

# From here on of a copy, whose tests and words are what we make them.
git clone --quiet "$top" copy
makes_the_same copy/packaging/release --dry-run
version=$(basename again/uvwheel-*.tar.xz .tar.xz)
version=${version#uvwheel-}
release=copy/packaging/release
commit() {
  git -C copy -c user.name=test -c user.email=test@localhost \
    commit --quiet --all --message "$1"
}

# The version is one of development, as each commit's is but that of a release.
sed -i 's/\(VERSION_IS_RELEASE\) 1/\1 0/; s/\(VERSION_SUFFIX\) ""/\1 "dev"/' \
  copy/include/uvwheel.h
sed -i 's/: .*/:/' copy/packaging/release-words
printf '#!/bin/sh\nfalse\n' >copy/test/run
refuses 2 'usage: ' $release
refuses 1 'again is there' $release again
refuses 1 'tree is not clean' $release refused
commit 'a version of development'
refuses 1 "$version is a version of development" $release refused
says 'not filled in.*: page files maintainer email key date$'

# word NAME VALUE: fills it in
word() {
  sed -i "s|^$1:.*|$1: $2|" copy/packaging/release-words
}
word page https://example.com/page
word files ftp://example.com
word maintainer 'A \& B/C' # as sed takes it
word email a@example.com
word key 0123456789ABCDEF0123456789ABCDEF01234567
word date 2031-02-03
commit 'words'
refuses 1 'not filled in.*: files$' $release refused
word files "file://$work/released"
$release --prepare >log
git -C copy diff --exit-code --quiet && fail "nothing was prepared"
grep -q "^## $version (2031-02-03)$" copy/CHANGELOG.md
grep -qx 'Maintainer: A & B/C <a@example.com>' copy/packaging/debian/control
grep -qx ' -- A & B/C <a@example.com>  Mon, 03 Feb 2031 12:00:00 +0000' \
  copy/packaging/debian/changelog
commit 'a release whose tests fail'
refuses 1 'tests fail' $release refused

printf '#!/bin/sh\n[ "$*" = --all ] || [ "$*" = --far ]\n' >copy/test/run
commit 'a release'
$release released >log
says 'tag --local-user=0123456789ABCDEF'
rm -r again
files=released
makes_the_same $release --dry-run

# The library says what it is, and Meson takes a release from where it was made.
# shellcheck disable=SC2046 # flags are several words
cc -Ireleased -o version "$top/test/install/headers/main.c" released/uvwheel.c \
  $(pkg-config --cflags --libs libuv)
./version | grep -q "^version $version of the library"
mkdir -p user/subprojects
echo "project('user')" >user/meson.build
cp released/uvwheel.wrap user/subprojects
meson subprojects download --sourcedir user >log 2>&1 || { cat log; exit 1; }
cmp user/subprojects/packagecache/uvwheel-*.tar.xz released/uvwheel-*.tar.xz

git -C copy tag "v$version"
refuses 1 'a tag' $release refused
