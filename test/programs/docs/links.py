#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every link from one document to a file of the project leads somewhere, and
every drawing is XML with a title and a description."""

import sys
from xml.etree import ElementTree

from documents import TOP, Document, documents

SVG = "{http://www.w3.org/2000/svg}"


def faults(document):
    for link in document.links():
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (document.path.parent / path if path
                  else document.path).resolve()
        if not target.is_relative_to(TOP) or not target.exists():
            yield f"no file {link}"
        elif anchor and anchor not in Document(target).anchors():
            yield f"no heading {link}"
        elif target.suffix == ".svg" and target.parent == TOP / "docs":
            root = ElementTree.parse(target).getroot()
            if not (root.findtext(SVG + "title")
                    and root.findtext(SVG + "desc")):
                yield f"no title or description in {link}"


found = [f"{document.name}: {fault}" for document in documents()
         for fault in faults(document)]
sys.exit("\n".join(found) or None)
