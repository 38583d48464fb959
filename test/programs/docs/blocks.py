#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every block of C, C++, Meson and CMake code in a document compiles.

A block with a main() is a program. Any other one is a fragment: the n-th block
of docs/NAME.md is NAME-n.c, and NAME.c, beside this, includes it where it belongs.
(In C++: NAME-n.cc and NAME.cc.) A block of Meson code is configured in a
project that has uvwheel as a subproject, one of CMake code in one that finds it
installed, or fetches it: then these sources are what it gets.

usage: blocks.py PREFIX UVWHEEL-CFLAGS...
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from documents import TOP, documents

HERE = pathlib.Path(__file__).parent
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
COMPILERS = {"c": ["cc", "-std=gnu11"], "cc": ["c++", "-std=c++17"]}
LANGUAGES = {"c": ["c"], "cc": ["cpp", "c++"]}
MESON = """project('parent', 'c', default_options: ['warning_level=3'])
{block}
executable('program', 'program.c', dependencies: uvwheel_dep)
"""
CMAKE = """cmake_minimum_required(VERSION 3.18)
project(parent C)
add_executable(program program.c)
{block}
"""


def run(what, command):
    done = subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        yield f"{what}:\n{done.stdout}"


def compile_blocks(document, suffix, scratch):
    """Its programs one by one, and its fragments in their context."""
    compiler = [*COMPILERS[suffix], *STRICT, *sys.argv[2:], f"-I{scratch}"]
    context = HERE / f"{document.path.stem}.{suffix}"
    included = context.read_text() if context.exists() else ""
    fragments = False
    for number, (line, block) in enumerate(
            document.blocks(*LANGUAGES[suffix]), 1):
        what = f"{document.name}:{line}"
        path = scratch / f"{document.path.stem}-{number}.{suffix}"
        path.write_text(f'#line {line} "{document.name}"\n{block}')
        if re.search(r"\bmain\(", block):
            yield from run(what, [*compiler, path])
            continue
        fragments = True
        if f'"{path.name}"' not in included:
            yield f"{what}: {context.name} must include {path.name}"
    if fragments and included:
        yield from run(context.name, [*compiler, context])


def project(scratch, name, text):
    (scratch / name).write_text(text)
    (scratch / "program.c").write_text("int main(void) { return 0; }\n")
    return scratch / "build"


def configure_meson(block, scratch):
    (scratch / "subprojects").mkdir()
    (scratch / "subprojects" / "uvwheel").symlink_to(TOP)
    build = project(scratch, "meson.build", MESON.format(block=block))
    return ["meson", "setup", "--force-fallback-for=uvwheel",
            "--wrap-mode=nodownload", build, scratch]


def configure_cmake(block, scratch):
    build = project(scratch, "CMakeLists.txt", CMAKE.format(block=block))
    return ["cmake", "-Werror=dev", f"-DCMAKE_PREFIX_PATH={sys.argv[1]}",
            f"-DFETCHCONTENT_SOURCE_DIR_UVWHEEL={TOP}", "-S", scratch,
            "-B", build]


def faults(document):
    for suffix in COMPILERS:
        with tempfile.TemporaryDirectory() as scratch:
            yield from compile_blocks(document, suffix, pathlib.Path(scratch))
    for language, command in (("meson", configure_meson),
                              ("cmake", configure_cmake)):
        for line, block in document.blocks(language):
            with tempfile.TemporaryDirectory() as scratch:
                yield from run(f"{document.name}:{line}",
                               command(block, pathlib.Path(scratch)))


found = [fault for document in documents() for fault in faults(document)]
sys.exit("\n".join(found) or None)
