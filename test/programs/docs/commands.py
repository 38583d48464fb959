#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The scripts that documents call are there, with the options that they are given.
The job `newcomer` executes the README's commands."""

import os
import re
import subprocess
import sys

from documents import TOP, documents

jobs = subprocess.check_output([TOP / "test/run", "--list"], text=True)
JOBS = {line.split()[0] for line in jobs.splitlines()}


def commands(document):
    """The lines of blocks of shell code, and the code spans that may be some."""
    for _, block in document.blocks("sh"):
        lines = re.sub(r"(^|\s)#.*", "", block.replace("\\\n", " "), flags=re.M)
        yield from filter(None, map(str.split, lines.splitlines()))
    for span in document.code_spans():
        if os.access(TOP / span.split()[0], os.X_OK):
            yield span.split()


def faults(script, *words):
    path = TOP / script
    if "/" not in script or re.match(r"\./|build/", script) or path.is_dir():
        return
    if not os.access(path, os.X_OK):
        yield f"there is no {script}"
        return
    text = path.read_text()
    for word in words:
        if word.startswith("--") and word not in text:
            yield f"{script} has no {word}"
        elif script == "test/run" and word[0] != "-" and word not in JOBS:
            yield f"{script} has no job {word}"


checked = [(document.name, words) for document in documents()
           for words in commands(document)]
found = [f"{name}: {fault}" for name, words in checked
         for fault in faults(*words)]
if not checked:
    found = ["no document has a command"]
sys.exit("\n".join(found) or None)
