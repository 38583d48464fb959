#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every exported function has a manual page that man renders as it should.

usage: manual.py MAN3-DIRECTORY
"""

import pathlib
import re
import subprocess
import sys

from documents import TOP

EXPORTED = re.compile(r"^UVWHEEL_EXTERN[^(;]*?(\w+)\(", re.MULTILINE)


def faults(function, path):
    if not path.exists():
        yield f"{function} has no manual page"
        return
    done = subprocess.run(["man", "--warnings", "-P", "cat", "-l", path],
                          capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        yield f"{path.name}: {done.stderr}"
    for part in ("NAME", f"{function} *- ", "SYNOPSIS", rf"{function}\(",
                 "DESCRIPTION", "SEE ALSO"):
        if not re.search(part, done.stdout):
            yield f"{path.name} lacks {part}"


directory = pathlib.Path(sys.argv[1])
functions = [name for header in sorted(TOP.glob("include/**/*.h"))
             for name in EXPORTED.findall(header.read_text())]
found = [fault for name in functions
         for fault in faults(name, directory / f"{name}.3")]
if not functions:
    found = ["the headers declare no function"]
sys.exit("\n".join(found) or None)
