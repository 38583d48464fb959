#!/bin/sh
# SPDX-License-Identifier: MIT

# usage: release.sh DIRECTORY
# A release of the last commit is the same as that in the directory, whoever
# makes it, and what is not ready is not released.

set -eu
files=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
url=https://example.org/uvwheel

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

(umask 077 && "$top/packaging/release" --dry-run again "$url/" >log 2>&1)
diff -r "$files" again
(cd again && sha256sum --check --strict SHA256SUMS)
find again -type f ! -name SHA256SUMS -printf '%P\n' | sort >made
sed 's/^[^ ]*  //' again/SHA256SUMS | sort | diff made - ||
  fail "these files have no checksum"
"$top/packaging/release" --dry-run nowhere >log 2>&1
cmp again/uvwheel-*.tar.xz nowhere/uvwheel-*.tar.xz
says 'find an address'
for made in again nowhere; do
  "$top/test/install/packaging/sbom.py" $made
done

# Meson takes a release from where it was made.
"$top/packaging/release" --dry-run local "file://$work/local" >log 2>&1
mkdir -p user/subprojects
echo "project('user')" >user/meson.build
cp local/uvwheel.wrap user/subprojects
meson subprojects download --sourcedir user >log 2>&1 || { cat log; exit 1; }
cmp user/subprojects/packagecache/uvwheel-*.tar.xz local/uvwheel-*.tar.xz

# From here on of a copy, whose tests are what we make them.
git clone --quiet "$top" copy
release=copy/packaging/release
commit() {
  git -C copy -c user.name=test -c user.email=test@localhost \
    commit --quiet --all --message "$1"
}

refuses 2 'usage: ' $release
refuses 2 'usage: ' $release --refused
refuses 2 'usage: ' $release refused ftp://example.org
refuses 1 'again is there' $release again "$url"

version=$(basename again/uvwheel-*.tar.xz .tar.xz)
version=${version#uvwheel-}
printf '#!/bin/sh\nfalse\n' >copy/test/run
sed -i "1,/^## /s/^## .*/## $version (2000-01-01)/" copy/CHANGELOG.md
sed -i "1s/(.*)/($version-1)/" copy/packaging/debian/changelog
refuses 1 'tree is not clean' $release refused "$url"
commit 'failing tests'
refuses 1 'tests fail' $release refused "$url"

printf '#!/bin/sh\n[ "$*" = --all ] || [ "$*" = --far ]\n' >copy/test/run
commit 'good tests'
$release released "$url"
[ -s "released/uvwheel-$version.tar.xz" ] || fail "no tarball was made"
git -C copy tag "v$version"
refuses 1 'a tag' $release refused "$url"

sed -i '/define UVWHEEL_VERSION_MINOR/s/[0-9]*$/99/' copy/include/uvwheel.h
commit 'a version of which nobody has told'
refuses 1 ' CHANGELOG.md does not begin' $release refused "$url"
says 'debian/changelog does not begin' 'uvwheel.spec is not of'
