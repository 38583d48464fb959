#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every promise of docs/promises.md names a test, and each of those exists."""

import re
import sys

from documents import TOP, Document

document = Document(TOP / "docs" / "promises.md")


def faults(row):
    tests = re.findall(r"\[`([^`]+)`\]\(([^)]+)\)", row)
    if not tests:
        yield f"no test: {row}"
    for name, link in tests:
        path = document.path.parent / link
        if not path.is_file():
            yield f"no file {link}"
        elif f"START_TEST({name})" not in path.read_text(encoding="utf-8"):
            yield f"no test {name} in {link}"


# Each table begins with its head and a line of dashes.
rows = re.findall(r"^\|(?!.*\n\|-|-)(.*)$", document.text, re.MULTILINE)
found = [fault for row in rows for fault in faults(row)]
if not rows:
    found = ["no promises"]
sys.exit("\n".join(found) or None)
