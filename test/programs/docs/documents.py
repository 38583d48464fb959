# SPDX-License-Identifier: MIT
"""The project's Markdown documents, and what there is in them to test."""

import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parents[3]
FENCED = re.compile(r"^```([\w+]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Document:
    def __init__(self, path):
        self.path = path
        self.name = str(path.relative_to(TOP))
        self.text = path.read_text(encoding="utf-8")
        self.prose = FENCED.sub("", self.text)

    def blocks(self, *languages):
        """Pairs: the line a block begins at, and its text."""
        for match in FENCED.finditer(self.text):
            if match[1] in languages:
                yield self.text.count("\n", 0, match.start()) + 2, match[2]

    def code_spans(self):
        return re.findall(r"`([^`]+)`", self.prose)

    def links(self):
        text = re.sub(r"`[^`]+`", "", self.prose)
        yield from re.findall(r"\]\(([^)\s]+)\)", text)
        yield from re.findall(r'\b(?:src|srcset|href)="([^"]+)"', text)

    def anchors(self):
        """Of its headings, as GitHub makes them."""
        for heading in re.findall(r"^#+ (.*)$", self.prose, re.MULTILINE):
            yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def documents():
    inside = ["*.md", "docs/**/*.md", "examples/**/*.md", "packaging/**/*.md",
              "test/**/*.md"]
    return [Document(path) for pattern in inside
            for path in sorted(TOP.glob(pattern))]
