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

# debian_apt TYPE SUITE ARCHITECTURE COMMAND...: apt-get for another Debian, in
# the directory apt; needs no root
debian_apt() {
  mkdir -p apt/lists/partial apt/cache/archives/partial
  : >apt/status
  echo "$1 [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "$mirror $2 main" >apt/sources.list
  architecture=$3
  shift 3
  apt-get -o APT::Architecture="$architecture" \
    -o APT::Architectures="$architecture" -o Dir::State="$PWD/apt" \
    -o Dir::State::status="$PWD/apt/status" -o Dir::Cache="$PWD/apt/cache" \
    -o Dir::Etc::sourcelist="$PWD/apt/sources.list" \
    -o Dir::Etc::sourceparts=- "$@"
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

# fetch_foreign ARCHITECTURE [SUITE]: unpacks libuv and check, with the C
# library that they were linked with
fetch_foreign() {
  set -- deb "${2-$codename}" "$1"
  debian_apt "$@" update
  debian_apt "$@" install --download-only --yes --no-install-recommends \
    libuv1-dev check libc6-dev
  for package in apt/cache/archives/*.deb; do
    dpkg-deb -x "$package" .
  done
  [ -e lib ] || ln -s usr/lib lib
}

# machine_file: Meson's, as it is read; the job begins anew with another one
machine_file() {
  cat >"$build/$job.new"
  cmp -s "$build/$job.new" "$build/$job.machine" || rm -rf "${build:?}/$job"
  mv "$build/$job.new" "$build/$job.machine"
}

# run_foreign ARCHITECTURE TRIPLET ENDIAN FAMILY EMULATOR [SUITE]
run_foreign() {
  # shellcheck disable=SC2086 # perhaps no word
  keep "foreign-$1" fetch_foreign "$1" ${6-} || return 0
  root=$top/$build/foreign-$1
  libraries=$(echo "$root"/usr/lib/*-linux-gnu*)
  machine_file <<END
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
[host_machine]
system = 'linux'
cpu_family = '$4'
cpu = '$1'
endian = '$3'
END
  configure --cross-file "$build/$job.machine" -Dexamples=disabled && compile &&
    run_library_tests --timeout-multiplier 20
}

job_arm64() {
  run_foreign arm64 aarch64-linux-gnu little aarch64 qemu-aarch64
}

# 32 bits, where malloc aligns to 8 bytes.
job_armhf() {
  run_foreign armhf arm-linux-gnueabihf little arm qemu-arm
}

# Debian has it since trixie.
job_riscv64() {
  run_foreign riscv64 riscv64-linux-gnu little riscv64 qemu-riscv64 trixie
}

# Big-endian.
job_s390x() {
  run_foreign s390x s390x-linux-gnu big s390x qemu-s390x
}

job_i386() {
  run_foreign i386 i686-linux-gnu little x86 qemu-i386
}

# ---- Other Debians: a newer libuv, gcc, Meson -----------------------------

# make_debian SUITE: a system with the tools of the jobs below
make_debian() {
  find_manager
  include=$(for tool in abidiff c++ cc check cmake dh doxygen \
    dpkg-buildpackage git libuv lintian meson mmdebstrap ninja pkg-config \
    uthash xz; do
    packages_of "$tool"
  done | tr ' \n' ,,)
  # A mirror may be behind, and the lists of sid are good for a week.
  mmdebstrap --variant=apt --aptopt='Acquire::Check-Valid-Until "false"' \
    --include="${include}build-essential,python3" "$1" root.tar "$mirror"
}

# run_debian SUITE: the tests, the ABI, the consumers and the packages there
run_debian() {
  keep "debian-$1" make_debian "$1" || return 0
  tar --exclude=./build --create --file "$build/$job.tar" .
  rm -rf "$build/$job-results"
  mkdir "$build/$job-results"
  # $1 is for the shell that mmdebstrap runs.
  # shellcheck disable=SC2016
  mmdebstrap --variant=custom --format=null --quiet \
    --skip=update,setup,cleanup \
    --setup-hook="tar-in '$build/debian-$1/root.tar' /" \
    --setup-hook='mkdir "$1/srv/uvwheel"' \
    --setup-hook="tar-in '$build/$job.tar' /srv/uvwheel" \
    --customize-hook='chroot "$1" /srv/uvwheel/test/run \
      tests abi consumer packaging || true' \
    --customize-hook="copy-out '/srv/uvwheel/$results' '$build/$job-results'" \
    "$1" - || true
  if ! awk -F '\t' -v OFS='\t' -v job="$job" '{ $3 = job ": " $3; print }' \
    "$build/$job-results"/* >>"$results"; then
    result failed 1 "$job: no results"
  fi
}

job_trixie() {
  run_debian trixie
}

job_sid() {
  run_debian sid
}

# ---- Other C libraries: what is needed is built from its sources -----------

# fetch_sources: of libuv and check
fetch_sources() {
  set -- deb-src trixie "$(dpkg --print-architecture)"
  debian_apt "$@" update
  debian_apt "$@" source libuv1 check
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

# build_musl: sets $prefix to what is built of them for musl
build_musl() {
  prefix=$top/$build/musl-prefix
  keep sources fetch_sources &&
    keep musl-prefix build_prefix -DCMAKE_C_COMPILER=musl-gcc
}

# configure_musl COMPILER OPTION...: without C++, whose library is glibc's
configure_musl() {
  machine_file <<END
[binaries]
c = '$1'
cpp = 'none'
[built-in options]
pkg_config_path = '$prefix/lib/pkgconfig'
END
  shift
  configure --native-file "$build/$job.machine" -Dexamples=disabled "$@"
}

# All of it static. The C library's epoll_wait yields to that of the tests.
job_musl() {
  build_musl || return 0
  cat >"$prefix/bin/static-gcc" <<'END'
#!/bin/sh
case " $* " in
  *' -shared '*) exec musl-gcc "$@" ;;
  *) exec musl-gcc -static -Wl,--allow-multiple-definition "$@" ;;
esac
END
  chmod +x "$prefix/bin/static-gcc"
  configure_musl "$prefix/bin/static-gcc" -Dprefer_static=true \
    -Ddefault_library=static && compile && run_library_tests
}

# The shared library, loaded late.
job_musl_shared() {
  build_musl || return 0
  configure_musl musl-gcc &&
    compile test_dlopen filler uvwheel:shared_library &&
    run_tests uvwheel:loader
}

# ---- Windows: by MinGW-w64 and Wine ----------------------------------------

# build_windows: sets $prefix to what is built for it
build_windows() {
  prefix=$top/$build/windows-prefix
  keep sources fetch_sources &&
    keep windows-prefix build_prefix -DCMAKE_SYSTEM_NAME=Windows \
      -DCMAKE_C_COMPILER=x86_64-w64-mingw32-gcc \
      -DCMAKE_RC_COMPILER=x86_64-w64-mingw32-windres
}

# configure_windows LINK-ARGUMENT OPTION...: with C's own printf, which is not
# the one that check names. Libraries yield to what the tests put in their
# place. Wine's disk is below the build directory.
configure_windows() {
  wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
  machine_file <<END
[binaries]
c = 'x86_64-w64-mingw32-gcc'
ar = 'x86_64-w64-mingw32-ar'
windres = 'x86_64-w64-mingw32-windres'
pkgconfig = 'pkg-config'
exe_wrapper = ['env', 'WINEDEBUG=-all', 'WINEDLLOVERRIDES=mscoree,mshtml=',
  'WINEPREFIX=$top/$build/wine', '$wine']
[properties]
pkg_config_libdir = '$prefix/lib/pkgconfig'
[built-in options]
c_args = ['-D__USE_MINGW_ANSI_STDIO=1', '-Wno-format',
  '-Wno-format-extra-args']
c_link_args = ['$1', '-Wl,--allow-multiple-definition']
[host_machine]
system = 'windows'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
END
  shift
  configure --cross-file "$build/$job.machine" -Dexamples=disabled "$@"
}

# All of it static, in virtual time where that has no need of processes.
job_windows() {
  build_windows || return 0
  configure_windows -static -Dprefer_static=true -Ddefault_library=static &&
    compile && run_library_tests --timeout-multiplier 3
}

# exported_by DLL: its functions, sorted
exported_by() {
  x86_64-w64-mingw32-objdump -p "$1" | awk '/^\[Ordinal/ { on = 1; next }
    on && NF == 0 { exit } on { print $NF }' | LC_ALL=C sort
}

compare_exports() {
  sed -n 's/^ \(uvwheel_.*\)@.*/\1/p' packaging/debian/libuvwheel0.symbols \
    >"$build/$job.symbols"
  exported_by "$1" | diff -u "$build/$job.symbols" -
}

# serve_peers: the echo server of docs/migrating.md, with both DLLs
serve_peers() (
  # shellcheck source=test/tools/programs.sh
  . test/tools/programs.sh
  begin
  cp "$prefix/bin/libuv.dll" "$build/$job/libuvwheel-0.dll" "$dir"
  x86_64-w64-mingw32-gcc -static-libgcc -DSIGPIPE=13 \
    -DUVWHEEL_USING_SHARED=1 -Iinclude -I"$prefix/include" -o "$dir/after.exe" \
    examples/migrate/after.c "$build/$job/libuvwheel.dll.a" \
    "$prefix/lib/libuv.dll.a" -lws2_32 || exit
  env WINEDEBUG=-all WINEPREFIX="$top/$build/wine" "$wine" "$dir/after.exe" \
    2000 >"$dir/out" &
  until port=$(tr -d '\r' <"$dir/out" | sed -n 's/^listening on .*://p') &&
      [ -n "$port" ]; do
    kill -0 $! || exit
    sleep 0.1
  done
  test/programs/wine/peers.py "$port" 2000
)

# The DLL exports what the shared library elsewhere does, and serves a program.
job_windows_dll() {
  build_windows || return 0
  configure_windows -static-libgcc &&
    compile headers_c uvwheel:shared_library || return 0
  try exports compare_exports "$build/$job/libuvwheel-0.dll" || true
  cp "$prefix/bin/libuv.dll" "$build/$job/test/install/headers"
  run_tests uvwheel headers_c
  try sockets serve_peers || true
}
