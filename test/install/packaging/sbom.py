#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A release's bill of materials has what SPDX 2.3 asks for, and is of these files.

usage: sbom.py RELEASE
"""

import hashlib
import json
import pathlib
import sys

RELEASE = pathlib.Path(sys.argv[1])
DOCUMENT = {"SPDXID", "spdxVersion", "dataLicense", "name", "documentNamespace",
            "creationInfo", "packages", "files", "relationships"}
PACKAGE = {"SPDXID", "name", "downloadLocation", "filesAnalyzed",
           "licenseConcluded", "licenseDeclared", "copyrightText"}
FILE = {"SPDXID", "fileName", "checksums", "licenseConcluded", "copyrightText"}


def faults_of_sums(name, sums, needed):
    contents = (RELEASE / name).read_bytes()
    there = {one["algorithm"]: one["checksumValue"] for one in sums}
    for algorithm in needed:
        value = hashlib.new(algorithm.lower(), contents).hexdigest()
        if there.get(algorithm) != value:
            yield f"{name}: another {algorithm}, or none"


def faults_of(document):
    elements = [document, *document["packages"], *document["files"]]
    for element, needed in zip(elements, [DOCUMENT] +
                               [PACKAGE] * len(document["packages"]) +
                               [FILE] * len(document["files"])):
        yield from (f"{element['name' if 'name' in element else 'fileName']}: "
                    f"no {key}" for key in needed - element.keys())
    ids = [element["SPDXID"] for element in elements]
    if len(set(ids)) != len(ids):
        yield "two elements have one SPDXID"
    related = {end for relation in document["relationships"]
               for end in (relation["spdxElementId"],
                           relation["relatedSpdxElement"])}
    yield from (f"{one}: nothing, or related to nothing"
                for one in related ^ set(ids))
    tarball, = (one for one in document["packages"] if "checksums" in one)
    yield from faults_of_sums(tarball["packageFileName"], tarball["checksums"],
                              ["SHA256"])
    for file in document["files"]:
        yield from faults_of_sums(file["fileName"], file["checksums"],
                                  ["SHA1", "SHA256"])


path, = RELEASE.glob("*.spdx.json")
sys.exit("\n".join(faults_of(json.loads(path.read_text()))) or None)
