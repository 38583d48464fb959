#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What docs/migrating.md shows is what there is: the difference between the two
servers, and the names of libuv, uvwheel and recipes.

usage: migrating.py UV.H
"""

import difflib
import pathlib
import re
import sys
from collections import Counter

from documents import TOP, Document

uv_h = sys.argv[1]
document = Document(TOP / "docs" / "migrating.md")


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


def wrong_names():
    libuv = pathlib.Path(uv_h).read_text(encoding="utf-8")
    for name in set(re.findall(r"\buv_timer_\w+(?=\()", libuv)):
        if f"`{name}`" not in document.text:
            yield f"{name} has no counterpart"
    headers = "".join(path.read_text() for path in TOP.glob("include/**/*.h"))
    for name in set(re.findall(r"\buvwheel_\w+", document.text)):
        if not re.search(rf"\b{name}\b", headers):
            yield f"there is no {name}"
    for recipe in TOP.glob("examples/recipes/*.c"):
        if f"(../examples/recipes/{recipe.name})" not in document.text:
            yield f"{recipe.name} is not in {document.name}"


found = [*wrong_steps(), *wrong_names()]
sys.exit("\n".join(found) or None)
