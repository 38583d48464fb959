#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a release has for Meson's wrap database would be accepted there.

The rules are those of its README and of the checks that it runs: names and
forms, and that the wrap configures without a warning on each platform. Of those
that are tried there, two can be had here: Linux, and Windows by MinGW.
consume.sh builds and installs what it gets.

usage: wrap.py RELEASE
"""

import configparser
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RELEASE = pathlib.Path(sys.argv[1])
NAME = "uvwheel"
DATABASE = f"""project('database', meson_version: '>=0.58.0')
subproject('{NAME}')
assert(dependency('{NAME}').type_name() == 'internal')
"""
MINGW = """[binaries]
c = 'x86_64-w64-mingw32-gcc'
ar = 'x86_64-w64-mingw32-ar'
strip = 'x86_64-w64-mingw32-strip'
windres = 'x86_64-w64-mingw32-windres'
pkgconfig = 'pkg-config'
[properties]
pkg_config_libdir = '{here}'
[host_machine]
system = 'windows'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
"""
LIBUV = "Name: libuv\nDescription: to configure with\nVersion: 1.51.0\n"
faults = []


def expect(truth, fault):
    if not truth:
        faults.append(fault)


def entry():
    """What goes into the database's releases.json; that is kept sorted."""
    text = (RELEASE / "wrapdb" / "releases.json").read_text()
    parsed = json.loads("{" + text.rstrip().removesuffix(",") + "}")
    whole = json.dumps(parsed, indent=2, sort_keys=True)
    expect(text == whole[2:-2] + ",\n", f"releases.json: not formatted: {text}")
    expect([*parsed] == [NAME], "releases.json: of others, too")
    return parsed[NAME]


def check_form(text):
    """Sections with a blank line between, and nothing but `key = value`."""
    lines = text.split("\n")
    for before, line in zip([""] + lines, lines[:-1]):
        section = re.fullmatch(r"\[[\w-]+\]", line)
        plain = re.fullmatch(r"\w+ = \S.*(?<!\s)", line)
        expect(section and before == "" or plain and before != "" or
               line == "" and before != "", f"wrap: not formatted: {line!r}")
    expect(text.endswith("\n") and lines[-2:-1] != [""], "wrap: its end")


def check_wrap(wrap, release):
    expect(wrap.sections() == ["wrap-file", "provide"], "wrap: its sections")
    file = wrap["wrap-file"]
    expect(not file.keys() - {"directory", "source_url", "source_filename",
                              "source_hash"}, "wrap: needs a patch, or more")
    for key in "directory", "source_filename":
        expect(re.fullmatch(r"[^/\\]+", file[key]), f"wrap: path in {key}")
    stem = re.sub(r"(\.tar)?\.[a-z0-9]+$", "", file["source_filename"])
    expect(stem == file["directory"], "wrap: tarball not named as directory")
    version = release["versions"][0].rsplit("-", 1)[0]
    expect(version in file["source_url"], "wrap: another version's address")
    expect(not re.search(r"/[0-9a-f]{40}", file["source_url"]),
           "wrap: a commit is no release")
    tarball = (RELEASE / file["source_filename"]).read_bytes()
    expect(hashlib.sha256(tarball).hexdigest() == file["source_hash"],
           "wrap: another tarball's hash")
    expect([*wrap["provide"]] == ["dependency_names"] and
           wrap["provide"]["dependency_names"].split(", ") ==
           release["dependency_names"], "wrap and releases.json differ")


def check_names(release):
    expect(not release.keys() - {"versions", "dependency_names"},
           "releases.json: an unknown key")
    expect(len(release["versions"]) == 1 and
           re.fullmatch(r"[a-z0-9._]+-[0-9]+", release["versions"][0]),
           "releases.json: not one version with its revision")


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT)


def check_platform(platform, here, *options):
    done = run("meson", "setup", here / platform, here, *options,
               "--fatal-meson-warnings")
    expect(done.returncode == 0, f"{platform}: {done.stdout}")


def check_oldest(here):
    """On Windows libuv 1.44.1 is too old."""
    (here / "libuv.pc").write_text(LIBUV.replace("1.51.0", "1.44.1"))
    done = run("meson", "setup", here / "oldest", here, "--wrap-mode=nofallback",
               "--cross-file", here / "mingw")
    expect("need: '>=1.44.2'" in done.stdout, f"1.44.1: {done.stdout}")


def main():
    wrap_text = (RELEASE / f"{NAME}.wrap").read_text()
    wrap = configparser.ConfigParser(interpolation=None)
    wrap.read_string(wrap_text)
    release = entry()
    check_form(wrap_text)
    check_names(release)
    check_wrap(wrap, release)

    with tempfile.TemporaryDirectory() as directory:
        here = pathlib.Path(directory)
        cache = here / "subprojects" / "packagecache"
        cache.mkdir(parents=True)
        shutil.copy(RELEASE / f"{NAME}.wrap", here / "subprojects")
        shutil.copy(RELEASE / wrap["wrap-file"]["source_filename"], cache)
        (here / "meson.build").write_text(DATABASE)
        (here / "libuv.pc").write_text(LIBUV)
        (here / "mingw").write_text(MINGW.format(here=here))
        check_platform("windows", here, "--cross-file", here / "mingw")
        check_oldest(here)
        check_platform("linux", here)


main()
sys.exit("\n".join(faults) or None)
