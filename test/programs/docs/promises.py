#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every row of docs/promises.md names tests that exist. The promises that the
header numbers (P1) each have a row, whose tests name that number in the comment
above them; and so have the scenarios that tests name."""

import re
import sys

from documents import TOP, Document

LINK = r"\[`(\w+)`\]\((\S+?)\)"
TEST = r"((?:/\*(?:(?!\*/).)*\*/\n)?)START_TEST\((\w+)\)"
document = Document(TOP / "docs" / "promises.md")
# Each table begins with its head and a line of dashes.
rows = re.findall(r"^\|(?!.*\n\|-|-)(.*)$", document.text, re.MULTILINE)


def tests():
    """For each test the file it is in, and the comment above it."""
    return {(path, name): comment
            for path in sorted((TOP / "test").glob("*/*.c"))
            for comment, name in re.findall(
                TEST, path.read_text(encoding="utf-8"), re.DOTALL)}


def named(row):
    """The tests of a row."""
    for name, link in re.findall(LINK, row):
        yield (document.path.parent / link).resolve(), name


def wrong_links(known):
    for row in rows:
        cell = row.split(" | ")[-1].strip(" |")
        if not re.fullmatch(rf"{LINK}(, {LINK})*", cell):
            yield f"no link to a test: {row}"
        yield from (f"no test {name} in {path}"
                    for path, name in named(row) if (path, name) not in known)


def wrong_promises(known):
    header = (TOP / "include" / "uvwheel.h").read_text(encoding="utf-8")
    promised = set(re.findall(r"^ \* - (P\d+)\. ", header, re.MULTILINE))
    shown = {(match[1], test) for row in rows
             if (match := re.match(r" \*\*(P\d+)\*\* ", row))
             for test in named(row)}
    noted = {(number, test) for test, comment in known.items()
             for number in re.findall(r"\bP\d+\b", comment)}
    if not promised:
        yield "the header has no promises"
    for number in sorted(promised ^ {number for number, _ in shown}):
        yield f"{number} is not both in the header and in a row"
    for number, (path, name) in sorted(shown ^ noted):
        yield f"{number} is not both in a row of {name} and above it in {path}"


def wrong_scenarios(known):
    for (_, name), comment in known.items():
        for number in re.findall(r"\bScenario (\d+)\b", comment):
            if not any(re.match(rf" {number} \|.*`{name}`", row)
                       for row in rows):
                yield f"no scenario {number} with {name}"


known = tests()
found = [*wrong_links(known), *wrong_promises(known), *wrong_scenarios(known)]
sys.exit("\n".join(found) or None)
