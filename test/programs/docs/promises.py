#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every promise of docs/promises.md names a test, and each of those exists."""

import re
import sys

from documents import TOP, Document

LINK = r"\[`(\w+)`\]\((\S+?)\)"
document = Document(TOP / "docs" / "promises.md")


def faults(row):
    cell = row.split(" | ")[-1].strip(" |")
    if not re.fullmatch(rf"{LINK}(, {LINK})*", cell):
        yield f"no link to a test: {row}"
    for name, link in re.findall(LINK, cell):
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
