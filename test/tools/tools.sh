# SPDX-License-Identifier: MIT
# shellcheck shell=sh

# Installs what a script needs and the machine lacks. For POSIX sh; source it:
#
#   . "$top/test/tools/tools.sh"
#   need cc meson ninja pkg-config libuv
#
# need TOOL...    installs those that are missing. If that fails it names each
#                 missing tool with the command that would install it, and the
#                 script ends with status 1. When all are there it does
#                 nothing: no network, no root.
# obtain TOOL...  the same, but returns 1 instead of ending the script, with
#                 the reason in $missing and nothing printed.
#
# The tools are those of the table below. It names the packages of each
# manager, several joined by a comma, and - or nothing where there is none.

tool_table() {
  cat <<'END'
# tool        apt-get dnf apk pacman zypper brew pkg
awk           mawk gawk gawk gawk gawk gawk
c++           g++ gcc-c++ g++ gcc gcc-c++ -
cc            gcc,libc6-dev gcc,glibc-devel gcc,musl-dev gcc gcc,glibc-devel -
check         check check-devel check-dev check check-devel check check
chromedriver  chromium-driver chromedriver chromium-chromedriver chromium chromedriver chromedriver
chromium      chromium chromium chromium chromium chromium chromium
clang         clang,libclang-rt-dev clang,compiler-rt clang,compiler-rt clang,compiler-rt clang llvm
clang-format  clang-format clang-tools-extra clang-extra-tools clang clang-tools clang-format
clang-tidy    clang-tidy clang-tools-extra clang-extra-tools clang clang-tools llvm
cmake         cmake cmake cmake cmake cmake cmake
curl          curl curl curl curl curl curl curl
dh            debhelper - - - - -
doxygen       doxygen doxygen doxygen doxygen doxygen doxygen
dpkg-buildpackage dpkg-dev - - - - -
gcc           gcc gcc gcc gcc gcc gcc
gcovr         gcovr gcovr gcovr - python3-gcovr gcovr
git           git git git git git git
gnuplot       gnuplot-nox gnuplot gnuplot gnuplot gnuplot gnuplot
http-parser   libhttp-parser-dev llhttp-devel llhttp-dev llhttp llhttp-devel llhttp llhttp
ip            iproute2 iproute iproute2 iproute2 iproute2 - -
microhttpd    libmicrohttpd-dev libmicrohttpd-devel libmicrohttpd-dev libmicrohttpd libmicrohttpd-devel -
libuv         libuv1-dev libuv-devel libuv-dev libuv libuv-devel libuv libuv
lld           lld lld lld lld lld lld
lintian       lintian - - - - -
llvm-ar       llvm llvm llvm llvm llvm llvm
man           man-db man-db man-db man-db man -
meson         meson meson meson meson meson meson meson,python3
mingw         gcc-mingw-w64-x86-64 mingw64-gcc mingw-w64-gcc mingw-w64-gcc mingw64-cross-gcc mingw-w64
mmdebstrap    mmdebstrap - - - - -
musl-gcc      musl-tools musl-gcc - musl - -
ninja         ninja-build ninja-build samurai ninja ninja ninja ninja
npm           npm nodejs-npm npm npm npm node
pkg-config    pkg-config pkgconf-pkg-config pkgconf pkgconf pkg-config pkgconf pkgconf
arm64-gcc     gcc-aarch64-linux-gnu,libc6-dev-arm64-cross - - - - -
armhf-gcc     gcc-arm-linux-gnueabihf,libc6-dev-armhf-cross - - - - -
i686-gcc      gcc-i686-linux-gnu,libc6-dev-i386-cross - - - - -
s390x-gcc     gcc-s390x-linux-gnu,libc6-dev-s390x-cross - - - - -
qemu-aarch64  qemu-user qemu-user qemu-aarch64 qemu-user qemu-linux-user -
qemu-arm      qemu-user qemu-user qemu-arm qemu-user qemu-linux-user -
qemu-i386     qemu-user qemu-user qemu-i386 qemu-user qemu-linux-user -
qemu-s390x    qemu-user qemu-user qemu-s390x qemu-user qemu-linux-user -
promtool      prometheus golang-github-prometheus prometheus prometheus golang-github-prometheus-prometheus prometheus
rpmbuild      rpm rpm-build - rpm-tools rpm-build rpm -
selenium      python3-selenium python3-selenium py3-selenium python-selenium python3-selenium -
shellcheck    shellcheck ShellCheck shellcheck shellcheck ShellCheck shellcheck
slowhttptest  slowhttptest slowhttptest - - - slowhttptest slowhttptest
uthash        uthash-dev uthash-devel uthash-dev uthash uthash-devel uthash
valgrind      valgrind valgrind valgrind valgrind valgrind -
wine          wine64 wine wine wine wine -
xz            xz-utils xz xz xz xz xz
yamllint      yamllint yamllint yamllint yamllint python3-yamllint yamllint
END
}

# can_include COMPILER [HEADER]: a compiler may come without the C library
can_include() {
  echo "#include <${2-stdio.h}>" | "$1" -x "${3-c}" -fsyntax-only -
}

# Is the tool there, and does it work?
has_tool() {
  case $1 in
    cc) can_include cc ;;
    c++) can_include c++ cstdio c++ ;;
    chromium)
      command -v chromium || command -v chromium-browser ||
        command -v google-chrome ;;
    clang) # its sanitizers are a package of their own
      echo 'int main(void) { return 0; }' |
        clang -fsanitize=address -x c -o /dev/null - ;;
    http-parser)
      can_include cc http_parser.h || pkg-config --exists libllhttp ;;
    check | libuv) pkg-config --exists "$1" ;;
    microhttpd | uthash) can_include cc "$1.h" ;;
    arm64-gcc) can_include aarch64-linux-gnu-gcc ;;
    armhf-gcc) can_include arm-linux-gnueabihf-gcc ;;
    i686-gcc | s390x-gcc) can_include "${1%-gcc}-linux-gnu-gcc" ;;
    lld) # clang finds it beside itself
      command -v "$(clang -print-prog-name=ld64.lld)" ;;
    meson) # 1.0 or newer
      meson --version | awk -F . '{new = $1 >= 1} END {exit !new}' ;;
    mingw) command -v x86_64-w64-mingw32-gcc ;;
    ninja) command -v ninja || command -v ninja-build || command -v samu ;;
    selenium) /usr/bin/python3 -c 'import selenium' ;; # as the tests find it
    wine) command -v wine || command -v wine64 || test -x /usr/lib/wine/wine64 ;;
    *) command -v "$1" ;;
  esac >/dev/null 2>&1
}

# Sets $manager, to nothing if none is known, and its $column of the table.
find_manager() {
  column=2
  for manager in apt-get dnf apk pacman zypper brew pkg; do
    ! command -v "$manager" >/dev/null 2>&1 || return 0
    column=$((column + 1))
  done
  manager=
}

# packages_of TOOL: its packages here, or nothing
packages_of() {
  tool_table | sed -n "s/^$1  */$1 /p" | cut -d ' ' -f "$column" |
    sed 's/^-$//; s/,/ /g'
}

# install_command PACKAGE...: what installs them
install_command() {
  case $manager in
    apt-get)
      echo "apt-get install --yes --no-remove --no-install-recommends $*" ;;
    dnf) echo "dnf install --assumeyes $*" ;;
    apk) echo "apk add $*" ;;
    pacman) echo "pacman --sync --needed --noconfirm $*" ;;
    zypper) echo "zypper --non-interactive install $*" ;;
    brew) echo "brew install $*" ;;
    pkg) echo "pkg install --yes $*" ;;
  esac
}

# Fetches the list of packages where the manager does not see to it itself.
update_packages() {
  case $manager in
    apt-get) as_root apt-get update ;;
    apk) as_root apk update ;;
    pacman) as_root pacman --sync --refresh ;;
  esac
}

# Runs a command as root. Without a terminal nobody could answer sudo's
# question for the password. brew wants no root.
as_root() {
  if [ "$manager" = brew ] || [ "$(id -u)" -eq 0 ]; then
    env DEBIAN_FRONTEND=noninteractive "$@" </dev/null
  elif [ -t 0 ]; then
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo -n env DEBIAN_FRONTEND=noninteractive "$@" </dev/null
  fi
}

# found_of TOOL...: those of them that are there
found_of() {
  for tool in "$@"; do
    ! has_tool "$tool" || echo "$tool"
  done
}

# missing_of TOOL...: those of them that are not there
missing_of() {
  for tool in "$@"; do
    has_tool "$tool" || echo "$tool"
  done
}

# remedy_of TOOL: what its user could do
remedy_of() {
  packages=$(packages_of "$1")
  if [ "$1" = meson ] && command -v meson >/dev/null 2>&1; then
    echo "this one is too old; pip install 'meson>=1.0'"
  elif [ -z "$packages" ]; then
    echo "no package known, install it by hand"
  elif [ "$manager" = brew ]; then
    install_command "$packages"
  else
    echo "sudo $(install_command "$packages")"
  fi
}

obtain() {
  # Tools have no blanks in their names: lists of them are split on purpose.
  # shellcheck disable=SC2046
  set -- $(missing_of "$@")
  [ $# -gt 0 ] || return 0
  find_manager
  packages=$(for tool in "$@"; do packages_of "$tool"; done)
  # Each step may fail; what counts is what is there afterwards.
  if [ -n "$packages" ]; then
    # shellcheck disable=SC2086 # several words
    install=$(install_command $packages)
    echo "installing: $install" >&2
    # shellcheck disable=SC2086
    install_log=$({ [ -n "${packages_updated-}" ] || update_packages
                    as_root $install; } 2>&1) || true
    packages_updated=yes
  fi
  # shellcheck disable=SC2046
  set -- $(missing_of "$@")
  missing=
  for tool in "$@"; do
    missing="${missing:+$missing
}$tool is missing: $(remedy_of "$tool")"
  done
  [ -z "$missing" ]
}

need() {
  obtain "$@" && return
  printf '%s\n' "${install_log-}" "$missing" >&2
  exit 1
}
