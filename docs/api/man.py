#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes manual pages from what Doxygen has understood of the headers.

There is a page for each function, callback, structure and enumeration, and one
for the header, HEADER. (Doxygen's own manual pages hold a whole header
each: who asks for a function would have to search for it.)

usage: man.py VERSION XML-DIRECTORY MAN-DIRECTORY
"""

import pathlib
import re
import sys
from xml.etree import ElementTree

HEADER = "uvwheel.h"
OVERVIEW = "uvwheel"


# ---- Text -------------------------------------------------------------------

def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def text_of(element):
    return " ".join("".join(element.itertext()).split())


def literal(text):
    return f".nf\n{escaped(text)}\n.fi\n"


def block(part):
    """A list, a verbatim text, or a paragraph with a title."""
    if part.tag == "itemizedlist":
        return "".join(f".IP \\(bu 2\n{escaped(text_of(item))}\n"
                       for item in part)
    if part.tag == "verbatim":
        return f".PP\n.RS 2\n{literal(part.text.rstrip())}.RE\n"
    title = part.findtext("title") or "Return value"
    return f".SH {title.upper()}\n" + "".join(
        paragraph(para) for para in part.findall("para"))


def paragraph(para):
    """Its text, and the blocks in it."""
    out, text = "", para.text or ""
    for part in para:
        if part.tag in ("itemizedlist", "verbatim", "simplesect"):
            out += paragraph_of(text) + block(part)
            text = ""
        else:
            text += text_of(part)
        text += part.tail or ""
    return out + paragraph_of(text)


def paragraph_of(text):
    text = " ".join(text.split())
    return text and f".PP\n{escaped(text)}\n"


def details(element):
    return "".join(paragraph(para)
                   for para in element.findall("detaileddescription/para"))


def description(element):
    """The brief description is the beginning of the detailed one."""
    brief = text_of(element.find("briefdescription"))
    para = element.find("detaileddescription/para")
    if para is None:
        return paragraph_of(brief)
    para.text = f"{brief} {para.text or ''}"
    return details(element)


def title(element):
    """As much of the first sentence as fits a line."""
    brief = text_of(element.find("briefdescription"))
    return re.split(r"[:;.?](?:\s|$)", brief)[0]


# ---- Pages ------------------------------------------------------------------

def declaration(element):
    """Of a function or a callback; on several lines if one is too short."""
    text = element.findtext("definition")
    if element.get("kind") == "function":
        text += element.findtext("argsstring")
    text = text.replace("* ", "*").replace("(*", " (*").replace(") (", ")(")
    text += ";"
    if len(text) > 72:
        text = text.replace(", ", ",\n" + " " * (text.index("(") + 1))
    return text


def member(element):
    """Of a structure or an enumeration."""
    name = element.findtext("name") + element.findtext("argsstring", "")
    if element.find("type") is not None:
        name = f"{text_of(element.find('type'))} {name}".replace("* ", "*")
    text = description(element).replace(".PP\n", "", 1)
    return f".TP\n.B {escaped(name)}\n{text}"


def members(compound, tag):
    out = "".join(member(element) for element in compound.iter(tag))
    return out and f".SH MEMBERS\n{out}"


def forward(kind, name):
    return f"typedef {kind} {name[:-1]}{kind[0]} {name};"


def contents(file):
    """The functions of a header, each with its title."""
    return ".SH FUNCTIONS\n" + "".join(
        f".TP\n.BR {element.findtext('name')} (3)\n{escaped(title(element))}\n"
        for element in file.iter("memberdef")
        if element.get("kind") == "function")


def pages_of(compound):
    """Pairs: what a page is about; the name, title, synopsis and text."""
    if compound.get("kind") == "struct":
        name = re.sub("_s$", "_t", compound.findtext("compoundname"))
        yield (name, title(compound), forward("struct", name),
               description(compound) + members(compound, "memberdef"))
    elif compound.get("kind") == "file":
        if compound.find("location").get("file") == HEADER:
            brief = text_of(compound.find("briefdescription"))
            yield (OVERVIEW, brief.split(": ")[1].rstrip("."), "",
                   details(compound) + contents(compound))
        for element in compound.iter("memberdef"):
            name, kind = element.findtext("name"), element.get("kind")
            if kind == "enum":
                yield (name, title(element), forward("enum", name),
                       description(element) + members(element, "enumvalue"))
            elif kind == "function" or name.endswith("_cb"):
                yield (name, title(element), declaration(element),
                       description(element))


def pages(directory):
    for path in sorted(directory.glob("*.xml")):
        compound = ElementTree.parse(path).getroot().find("compounddef")
        if compound is not None:
            yield from pages_of(compound)


def main():
    version, xml, out = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    manual = list(pages(xml))
    names = {name for name, *_ in manual}
    out.mkdir(parents=True, exist_ok=True)
    for name, summary, synopsis, text in manual:
        synopsis = f"#include <{HEADER}>\n\n{synopsis}".rstrip()
        related = {OVERVIEW} | names.intersection(
            re.findall(r"\buvwheel_\w+\b(?! \(3\))", synopsis + text))
        related = ",\n".join(f".BR {one} (3)"
                             for one in sorted(related - {name}))
        (out / f"{name}.3").write_text(
            f'.TH {name} 3 "" "uvwheel {version}" "uvwheel"\n'
            f".SH NAME\n{name} \\- {escaped(summary)}\n"
            f".SH SYNOPSIS\n{literal(synopsis)}"
            f".SH DESCRIPTION\n{text}"
            f".SH SEE ALSO\n{related}\n", encoding="utf-8")


main()
