#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What docs/migrating.md shows is what there is: the new lines of the server that
was moved, and the names of libuv, uvwheel and recipes.

usage: migrating.py UV.H
"""

import pathlib
import re
import sys

from documents import TOP, Document

uv_h = sys.argv[1]
document = Document(TOP / "docs" / "migrating.md")


def wrong_steps():
    """Each line that uvwheel brought is in a step, and no other."""
    server = (TOP / "examples/migrate/after.c").read_text().split("*/", 2)[2]
    moved = {line for line in server.splitlines() if "uvwheel_" in line}
    added = {line[1:] for _, block in document.blocks("diff")
             for line in block.splitlines() if line[0] == "+"}
    for line in added - set(server.splitlines()):
        yield f"a step has the line {line}"
    for line in moved - added:
        yield f"no step has the line {line}"


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
