# SPDX-License-Identifier: MIT
# shellcheck shell=sh

# The jobs of test/run that are about Windows; to be sourced after machines.sh.

# Variables of the script that sources this:
# shellcheck disable=SC2154

# ---- Compiled, not run -----------------------------------------------------

# make_msvc UV: a program that compiles as Microsoft's compiler of 2019 would,
# with libuv's headers in that directory, but without a header of that compiler
make_msvc() {
  mingw_headers=$(echo '#include <_mingw.h>' | x86_64-w64-mingw32-gcc -E - |
    sed -n 's|^# 1 "\(.*\)/_mingw.h".*|\1|p' | head -n 1)
  cat >"$build/$job.cc" <<END
#!/bin/sh
exec clang --target=x86_64-pc-windows-msvc -fms-compatibility-version=19.29 \
  -fgnuc-version=4.2.1 -Wno-unused-command-line-argument \
  -isystem '$mingw_headers' -isystem '$1' \
  -include '$top/test/tools/msvc.h' "\$@"
END
  chmod +x "$build/$job.cc"
}

msvc() {
  "$build/$job.cc" -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only "$@"
}

job_msvc() {
  uv=$(pkg-config --variable=includedir libuv)
  mkdir -p "$build/$job"
  cp -R "$uv/uv.h" "$uv/uv" "$build/$job"
  make_msvc "$top/$build/$job"
  for file in src/*.c; do
    try "$file" msvc -std=c11 "$file" || true
    try "$file in a DLL" msvc -std=c11 -DUVWHEEL_BUILDING_SHARED=1 \
      -DUVWHEEL_CHECKS=1 "$file" || true
  done
  for standard in 14 17 20; do
    try "C++$standard" msvc -std=c++$standard -DUVWHEEL_USING_SHARED=1 \
      -x c++ include/uvwheel.h || true
  done
}

# By that compiler itself, where it is; libuv is built by it, too.
job_msvc_cl() {
  rm -rf "${build:?}/$job"
  CC=cl quiet setup meson setup "$build/$job" -Dtests=disabled \
    -Dexamples=disabled --force-fallback-for=libuv &&
    try library meson compile -C "$build/$job"
}

# ---- By MinGW-w64 and Wine -------------------------------------------------

# build_windows: sets $prefix to what is built for it
build_windows() {
  prefix=$top/$build/windows-prefix
  keep sources fetch_sources &&
    keep windows-prefix build_prefix -DCMAKE_SYSTEM_NAME=Windows \
      -DCMAKE_C_COMPILER=x86_64-w64-mingw32-gcc \
      -DCMAKE_RC_COMPILER=x86_64-w64-mingw32-windres
}

# With C's own printf, which is not the one that check names.
mingw_args='-D__USE_MINGW_ANSI_STDIO=1 -Wno-format -Wno-format-extra-args'

# configure_windows LINK-ARGUMENT OPTION...: libraries yield to what the tests
# put in their place. Wine's disk is below the build directory.
configure_windows() {
  wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
  machine_file windows x86_64 x86_64 little <<END
[binaries]
c = '${windows_cc:-x86_64-w64-mingw32-gcc}'
ar = 'x86_64-w64-mingw32-ar'
windres = 'x86_64-w64-mingw32-windres'
pkgconfig = 'pkg-config'
exe_wrapper = ['env', 'WINEDEBUG=-all', 'WINEDLLOVERRIDES=mscoree,mshtml=',
  'WINEPREFIX=$top/$build/wine', '$wine']
[properties]
pkg_config_libdir = '$prefix/lib/pkgconfig'
[built-in options]
c_args = '$mingw_args'
c_link_args = ['$1', '-Wl,--allow-multiple-definition']
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

# The same, the library compiled as Microsoft's compiler would, by clang: its
# intrinsics, its thread-local storage, its alignment.
job_windows_msvc() {
  build_windows || return 0
  make_msvc "$prefix/include"
  windows_cc=$top/$build/$job-cc
  cat >"$windows_cc" <<END
#!/bin/sh
case " \$* " in
  *" -c ../../../src/"*) exec '$top/$build/$job.cc' "\$@" -std=c11 ;;
  *) exec x86_64-w64-mingw32-gcc "\$@" ;;
esac
END
  chmod +x "$windows_cc"
  job_windows
  windows_cc=
}

# serve_peers: the echo server of docs/migrating.md, with both DLLs
serve_peers() (
  # shellcheck source=test/tools/programs.sh
  . test/tools/programs.sh
  begin
  cp "$prefix/bin/libuv.dll" "$build/$job/libuvwheel-1.dll" "$dir"
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
  "$build/tests/tools/load/idle-load" --port "$port" --timeout 2000 \
    --connections 100 --duration 5
)

job_windows_dll() {
  build_windows || return 0
  configure_windows -static-libgcc &&
    compile headers_c uvwheel:shared_library || return 0
  try exports test/install/exports "$build/$job/libuvwheel-1.dll" || true
  cp "$prefix/bin/libuv.dll" "$build/$job/test/install/headers"
  run_tests uvwheel headers_c
  if (build_tests); then # for the load, which runs on this system
    try sockets serve_peers || true
  fi
}
