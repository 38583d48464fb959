# SPDX-License-Identifier: MIT
"""Small faults for C sources, found by what the code says and not by where or
how it is written: in a function, macro, class or array, by its name, token by
token.

  A -> B    A becomes B
  cut A     A goes
  drop A    the statement that A is in goes
  X and Y   both

In A, `...` stands for one token or more, with their brackets in pairs. A must
be there once.
"""

import functools
import re

TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.]*|\.\.\.|'
    r"<<=|>>=|->|\+\+|--|<<|>>|&&|\|\||##|[-+*/%&|^<>=!]=|\S")
MACRO = re.compile(r"^#\s*define (\w+)(?:.*\\\n)*.*\n", re.MULTILINE)
FUNCTION = re.compile(r"^[A-Za-z_][^;{}#()]*?\b(\w+)\([^;{}]*\)\s*\{.*?^\}",
                      re.MULTILINE | re.DOTALL)
CLASS = re.compile(
    r"^(?:template [^;{]*?)?\b(?:class|struct) (\w+)[^;{]*\{.*?^\}",
    re.MULTILINE | re.DOTALL)
ARRAY = re.compile(
    r"^(?:\} |[A-Za-z_][^;{}()#=]*?\b)(\w+)\[[^;=]*\] = \{.*?^\};",
    re.MULTILINE | re.DOTALL)
OPEN, CLOSE = "([{", ")]}"


class Stale(Exception):
    """The code is not there, or more than once."""


class Code:
    """A part of a text, and its tokens."""

    def __init__(self, text, begin, end):
        self.tokens = [(match[0], match.start(), match.end())
                       for match in TOKEN.finditer(text, begin, end)]
        self.words = [word for word, _, _ in self.tokens]

    def find(self, pattern):
        """The ranges of tokens that match."""
        ends = ((at, self.match(pattern, at)) for at in range(len(self.words)))
        return [(at, end) for at, end in ends if end is not None]

    def match(self, pattern, at):
        """Where the tokens that match from `at` on end, or None."""
        for number, word in enumerate(pattern):
            if word == "...":
                return self.match_gap(pattern[number + 1:], at)
            if self.words[at:at + 1] != [word]:
                return None
            at += 1
        return at

    def match_gap(self, rest, at):
        depth = 0
        for at in range(at, len(self.words)):
            depth += (self.words[at] in OPEN) - (self.words[at] in CLOSE)
            if depth < 0:
                return None
            if depth == 0:
                end = self.match(rest, at + 1)
                if end is not None:
                    return end
        return None

    def opening(self, at):
        """Where the bracket that is closed at `at` was opened."""
        depth = 0
        while True:
            depth += (self.words[at] in CLOSE) - (self.words[at] in OPEN)
            if depth == 0:
                return at
            at -= 1

    def statement(self, begin, end):
        """The range of the statement with these tokens."""
        while self.words[begin - 1] not in (";", "{", "}", "else", "do"):
            if self.words[begin - 1] == ")" and self.words[
                    self.opening(begin - 1) - 1] in ("if", "for", "while"):
                break
            begin -= 1
        depth = 0
        for at in range(begin, len(self.words)):
            depth += (self.words[at] in OPEN) - (self.words[at] in CLOSE)
            if self.words[at] == ";" and depth == 0 and at >= end - 1:
                return begin, at + 1
        raise Stale("no statement")


def words_of(text):
    return TOKEN.findall(text)


def without_comments(text):
    """The same text with blanks in their place, and where lines go on."""
    text = re.sub(r"/\*.*?\*/", lambda match: re.sub(r"[^\n]", " ", match[0]),
                  text, flags=re.DOTALL)
    return re.sub(r"\\\n", " \n", text)


@functools.lru_cache(maxsize=None)
def definitions(text):
    """Pairs: the name of a function, macro, class or array, and its code."""
    code = without_comments(text)
    return [(match[1], Code(code, *match.span()))
            for match in (*MACRO.finditer(text), *FUNCTION.finditer(code),
                          *CLASS.finditer(code), *ARRAY.finditer(code))]


def change(text, name, edit):
    """The text with one change in that function, or None if it has none."""
    if edit.startswith(("drop ", "cut ")):
        kind, pattern = edit.split(" ", 1)
        instead = ";" if kind == "drop" else ""
    else:
        kind, (pattern, instead) = "", edit.split(" -> ")
    found = [(code, place) for owner, code in definitions(text)
             if owner == name for place in code.find(words_of(pattern))]
    if not found:
        return None
    if len(found) > 1:
        raise Stale(f"{len(found)} places have {pattern}")
    (code, (begin, end)), = found
    if kind == "drop":
        begin, end = code.statement(begin, end)
    return (text[:code.tokens[begin][1]] + f" {instead} " +
            text[code.tokens[end - 1][2]:])


def put(texts, name, edits):
    """Which one of the texts (file: text) is changed, and into what."""
    changed = {}
    for edit in edits.split(" and "):
        done = {file: new for file, text in texts.items()
                if (new := change(changed.get(file, text), name, edit))}
        if len(done) != 1 or changed and done.keys() != changed.keys():
            raise Stale(f"in {len(done)} files: {edit}")
        changed |= done
    (file, text), = changed.items()
    return file, text
