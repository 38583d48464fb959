#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every command of a document is known here, and is executed.

The commands are the lines of blocks of shell code, and the code spans that
begin with a script of the project or with one of TOOLS. They run in their
order, those of blocks first, in a copy of the sources without its build
directories, one for all documents. What one of them exports holds for those
after it. A block below a comment <!-- NAME --> is the file of that name.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

from documents import TOP, documents

TOOLS = {"cc", "c++", "cmake", "git", "make", "man", "meson", "ninja", "sudo"}


class Job(str):
    """A job of test/run, which does what the command does."""


# What is executed for each command: itself, or what ends sooner or asks for
# less, or nothing where there is a job.
ITSELF = ""
BENCH = "bench/run --n 10000 --reps 1 --only refresh --rivals uvwheel"
COMMANDS = {
    "export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig LD_RUN_PATH=$PREFIX/lib":
        ITSELF,
    "export MANPATH=$PREFIX/share/man: CMAKE_PREFIX_PATH=$PREFIX": ITSELF,
    "cc -O2 -Iinclude -o hello hello.c src/*.c -luv": ITSELF,
    "cc -O2 -fno-tree-slp-vectorize -Ibuild/two-files -o hello hello.c "
    "build/two-files/uvwheel.c -luv": ITSELF,
    "cc hello.c -o hello $(pkg-config --cflags --libs uvwheel)": ITSELF,
    "./hello": ITSELF,
    "examples/demo": Job("tests"),
    "examples/demo --million": Job("tests"),
    "examples/demo --trouble": Job("tests"),
    "bench/callgrind": "bench/callgrind start refresh",
    "test/exhaustive": "test/exhaustive --seconds 1",
    "build/demo/examples/idle-server --http 8080": Job("tests"),
    "build/demo/tools/load/idle-load --connections 2000 --duration 60":
        Job("tests"),
    "tools/uvwheel-try": Job("tests"),
    "tools/uvwheel-try --output uv.txt ./server":
        "cc -o server test/programs/try_subject.c -luv && "
        "tools/uvwheel-try --output uv.txt ./server",
    "tools/uvwheel-try --with wheel --output wheel.txt ./server": ITSELF,
    "diff -y uv.txt wheel.txt": "! diff -y uv.txt wheel.txt",
    "man uvwheel_timer_start": "man -P cat uvwheel_timer_start",
    "meson setup build --buildtype=release --libdir=lib -Dtests=disabled "
    "-Dexamples=disabled":
        "meson setup build --buildtype=release --libdir=lib -Dtests=disabled "
        "-Dexamples=disabled --prefix=$PREFIX",
    "meson compile -C build": ITSELF,
    "meson compile -C build docs": ITSELF,
    "sudo meson install -C build": "meson install -C build",
    "sudo ldconfig": "/sbin/ldconfig -n $PREFIX/lib",
    "meson install --skip-subprojects": Job("consumer"),
    "meson setup build/dev -Dchecks=true": ITSELF,
    "meson compile -C build/dev": "meson compile -C build/dev test_turns",
    "meson test -C build/dev": "meson test -C build/dev turns",
    "meson test -C build/dev turns": ITSELF,
    "meson test -C build/dev example_servers --test-args='-k idlest'": ITSELF,
    "test/mutate 'a walk leaves a draw'": ITSELF,
    "test/run": Job("tests"),
    "test/run --far": "test/run --list",
    "test/run --all": "test/run --list",
    "test/run --list": ITSELF,
    "test/run format shell docs": Job("format"),
    "bench/run": BENCH,
    "bench/run --documents": BENCH,
    "bench/run --quick": BENCH,
    "meson test": Job("tests"),
    "packaging/release ../uvwheel-release": Job("consumer"),
    "packaging/release --prepare": Job("consumer"),
    "packaging/release --dry-run ../uvwheel-release": Job("consumer"),
    "sudo apt-get build-dep ./packaging":
        "! command -v apt-get || apt-get --simulate build-dep ./packaging",
    "packaging/deb ../uvwheel-release/uvwheel-1.0.0.tar.xz ../uvwheel-debian":
        Job("packaging"),
    "rpmbuild -ta ../uvwheel-release/uvwheel-1.0.0.tar.xz": Job("rpm"),
    "test/run rpm": Job("rpm"),
    "test/run packaging": Job("packaging"),
    "test/run abi": Job("abi"),
    "test/run abi docs": Job("abi"),
    "packaging/release": Job("consumer"),
    "packaging/amalgamate build/two-files": ITSELF,
}


def logical_lines(block):
    """Its commands, without their comments."""
    for line in block.replace("\\\n", " ").splitlines():
        line = re.sub(r"(^|\s+)#.*", "", line)
        if line.strip():
            yield " ".join(line.split())


def is_command(span):
    first, *rest = span.split() or [""]
    path = TOP / first
    script = ("/" in first and path.is_file() and os.access(path, os.X_OK))
    return script or (bool(rest) and first in TOOLS)


def commands():
    """Pairs: the name of a document, and a command of it."""
    for document in documents():
        for _, block in document.blocks("sh"):
            for line in logical_lines(block):
                yield document.name, line
    for document in documents():
        for span in filter(is_command, document.code_spans()):
            yield document.name, " ".join(span.split())


def write_files(document, copy):
    for name, text in re.findall(r"^<!-- (\S+) -->\n```\w*\n(.*?)^```$",
                                 document.text, re.MULTILINE | re.DOTALL):
        (copy / name).write_text(text)


def execute(command, copy, exports):
    """Returns what it has printed if it fails."""
    environment = dict(os.environ, PREFIX=str(copy.parent / "prefix"))
    if command.startswith("export "):
        exports.append(command)
    done = subprocess.run("\n".join(["set -e", *exports, command]), shell=True,
                          cwd=copy, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600)
    return done.stdout if done.returncode != 0 else None


def check_jobs():
    """Those of the table exist."""
    known = subprocess.check_output([TOP / "test/run", "--list"], text=True)
    jobs = {value for value in COMMANDS.values() if isinstance(value, Job)}
    yield from (f"no job {job}" for job in jobs - set(known.split()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path,
                        help="where the copy is made, and all is installed")
    copy = parser.parse_args().directory.resolve() / "copy"
    shutil.rmtree(copy.parent / "prefix", ignore_errors=True)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(TOP, copy, symlinks=True, ignore=shutil.ignore_patterns(
        ".git", "build*", "__pycache__"))
    for document in documents():
        write_files(document, copy)
    done, executed, exports, faults = set(), set(), [], [*check_jobs()]
    for name, command in commands():
        if command in done:
            continue
        done.add(command)
        if command not in COMMANDS:
            faults.append(f"{name}: unknown command: {command}")
            continue
        instead = COMMANDS[command] or command
        if instead in executed or isinstance(instead, Job):
            continue
        executed.add(instead)
        print(f"{name}: {instead}", flush=True)
        output = execute(instead, copy, exports)
        if output is not None:
            faults.append(f"{name}: {instead}: failed\n{output}")
    unused = COMMANDS.keys() - done
    faults += [f"no document has the command: {name}" for name in unused]
    sys.exit("\n".join(faults) or None)


main()
