#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Doxygen's input filter: prints a header with the comments Doxygen knows.

The headers are written to be read as they are. This makes

  of the first comment                      that of the file
  of a comment above declarations           that of each of them, up to the
                                            next empty line
  of a comment behind a member or a macro   that of the member or the macro
  of /* private */ up to /* public or }     nothing
  of a struct below /* private: ... */      nothing
  of Errors:, Cost: and Returns             paragraphs of their own
  of what is indented after an empty line   verbatim text

usage: filter.py HEADER
"""

import re
import sys

COMMENT = r"/\*(?:(?!\*/).)*\*/"
INDENTED = r"(?: \*   .*\n(?: \*\n(?= \*   ))?)+"


def verbatim(match):
    lines = re.sub(r"^ \*(?:   )?", "", match[1], flags=re.MULTILINE)
    return f" *\n@verbatim\n{lines}@endverbatim\n"


def marked_up(comment):
    comment = re.sub(rf" \*\n({INDENTED})", verbatim, comment)
    comment = re.sub(r" (Errors|Cost):\s+(\* )?", r"\n * @par \1\n * ",
                     comment)
    return re.sub(r"(?<=[.*])(\n \*)? Returns ", r"\n * @return ", comment)


def converted(match):
    comment, text = match[0], match.string
    line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
    if re.match("#(?!define)|typedef struct .*;", line):
        return comment
    if line.strip():
        return "/**<" + comment[2:]
    return "/**" + marked_up(comment[2:].replace(" public: ", " "))


def repeated(match):
    return "".join(match[1] + declaration
                   for declaration in re.findall(r"#.*\n|[^;]*;\n", match[2]))


def main():
    with open(sys.argv[1], encoding="utf-8") as header:
        text = header.read()
    text = re.sub(r"/\* (?:SPDX|----).*\*/", "", text)
    for private in (r"/\* private: [^*]*\*/\ntypedef struct .*?\n\} \w+;",
                    r"/\* private.*?(?=/\* public|\n\})"):
        text = re.sub(private, lambda match: "\n" * match[0].count("\n"), text,
                      flags=re.DOTALL)
    text = re.sub(COMMENT, converted, text, flags=re.DOTALL)
    text = text.replace("/**", "/** @file\n *", 1)
    text = re.sub(rf"^({COMMENT}\n)((?:UVWHEEL_EXTERN[^;]*;\n){{2,}}|"
                  r"(?:#define [^\n]*\n){2,})",
                  repeated, text, flags=re.DOTALL | re.MULTILINE)
    print(text, end="")


main()
