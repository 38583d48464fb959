#!/bin/sh
# SPDX-License-Identifier: MIT

# A release of the last commit is the same whoever makes it, and what is not
# ready is not released.

set -eu
top=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
url=https://example.org/uvwheel

fail() {
  echo "$*" >&2
  exit 1
}

# refuses STATUS TEXT ARGUMENT...: exits with that status, says that text and
# leaves nothing
refuses() {
  expected=$1 text=$2
  shift 2
  status=0
  "$@" >log 2>&1 || status=$?
  [ "$status" -eq "$expected" ] || fail "status $status of: $*"
  grep -q -- "$text" log || fail "no word of '$text' from: $*"
  [ ! -e refused ] || fail "refused, and yet made something: $*"
}

"$top/packaging/release" --dry-run files "$url"
(umask 077 && "$top/packaging/release" --dry-run again "$url/" >log 2>&1)
diff -r files again
(cd files && sha256sum --check --strict SHA256SUMS)
find files -type f ! -name SHA256SUMS -printf '%P\n' | sort >made
sed 's/^[^ ]*  //' files/SHA256SUMS | sort | diff made - ||
  fail "these files have no checksum"
"$top/packaging/release" --dry-run nowhere >log 2>&1
cmp files/uvwheel-*.tar.xz nowhere/uvwheel-*.tar.xz
grep -q 'find an address' log || fail "no word of what is missing"
for made in files nowhere; do
  "$top/test/install/packaging/sbom.py" $made
done

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
refuses 1 'files is there' $release files "$url"

version=$(basename files/uvwheel-*.tar.xz .tar.xz)
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
refuses 1 'debian/changelog does not begin' $release refused "$url"
refuses 1 'uvwheel.spec is not of' $release refused "$url"
refuses 1 'README.md does not tell' $release refused "$url"
