#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What docs/migrating.md shows is what there is: the difference between the two
servers, what size-wheel prints, and the names of libuv, uvwheel and recipes.

usage: migrating.py SIZE-WHEEL UV.H
"""

import difflib
import pathlib
import re
import subprocess
import sys
from collections import Counter

from documents import TOP, Document

size_wheel, uv_h = sys.argv[1:]
document = Document(TOP / "docs" / "migrating.md")


def run_size_wheel(arguments):
    return subprocess.run([size_wheel, *arguments.split()], check=True,
                          capture_output=True, text=True).stdout


def difference():
    """All lines but the comments at the beginning, which tell them apart."""
    before, after = [
        (TOP / "examples" / "migrate" / name).read_text().split("*/", 2)[2]
        for name in ("before.c", "after.c")]
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return Counter(line[0] + line[2:] for line in lines if line[0] in "+-")


def wrong_steps():
    shown = Counter(line for _, block in document.blocks("diff")
                    for line in block.splitlines())
    for line in difference() - shown:
        yield f"no step has the line {line}"
    for line in shown - difference():
        yield f"a step has the line {line}"


def wrong_transcripts():
    found = False
    for _, block in document.blocks("text"):
        for arguments, output in re.findall(r"^\$ size-wheel (.*)\n([^$]*)",
                                            block, re.MULTILINE):
            found = True
            if run_size_wheel(arguments) != output:
                yield f"size-wheel {arguments} prints something else"
    if not found:
        yield "size-wheel is not shown"


def wrong_rows():
    rows = re.findall(r"^\| (\d+\w:.*) \|$", document.text, re.MULTILINE)
    for row in rows:
        timeout, refresh, tick, slots, memory, looks = row.split("|")
        output = run_size_wheel(
            f"--timeout {timeout}" +
            (f" --refresh {refresh}" if refresh.strip() else ""))
        for expected in (f"tick        {tick.strip()}, recommended\n",
                         f"slots       {slots.strip()}, recommended:",
                         f"memory      {memory.strip()} for",
                         f"looks       {looks.strip()} per"):
            if expected not in output:
                yield f"{row}: no '{expected}' in\n{output}"
    if not rows:
        yield "there is no table of sizes"


def wrong_names():
    libuv = pathlib.Path(uv_h).read_text(encoding="utf-8")
    for name in set(re.findall(r"\buv_timer_\w+(?=\()", libuv)):
        if f"`{name}`" not in document.text:
            yield f"{name} has no counterpart"
    headers = "".join(path.read_text() for path in TOP.glob("include/**/*.h"))
    for name in set(re.findall(r"\buvwheel_\w+", document.text)):
        if not re.search(rf"\b{name}\b", headers):
            yield f"there is no {name}"
    examples = Document(TOP / "examples" / "README.md")
    for recipe in TOP.glob("examples/recipes/*.c"):
        if f"(recipes/{recipe.name})" not in examples.text:
            yield f"{recipe.name} is not in {examples.name}"


found = [*wrong_steps(), *wrong_transcripts(), *wrong_rows(), *wrong_names()]
sys.exit("\n".join(found) or None)
