#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A release's bill of materials is an SPDX 2.3 document, of these files.

usage: sbom.py RELEASE
"""

import hashlib
import json
import pathlib
import re
import sys

RELEASE = pathlib.Path(sys.argv[1])
KINDS = "DESCRIBES|DEPENDS_ON|GENERATED_FROM"
URI = r"https?://[^\s#]+"
LOCATION = rf"NOASSERTION|NONE|{URI}"
LICENSE = r"MIT|NOASSERTION"
ID = r"SPDXRef-[A-Za-z0-9.-]+"
ANY = r"(?s).+"

# What each part must have and may have, and what its value looks like; a list
# is one of such parts. A field that is not named is a fault.
CHECKSUM = {"algorithm": "SHA1|SHA256", "checksumValue": "[0-9a-f]+"}
REFERENCE = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
             "referenceLocator": r"pkg:[a-z]+/\S+"}
DOCUMENT = {
    "spdxVersion": r"SPDX-2\.3", "dataLicense": r"CC0-1\.0",
    "SPDXID": "SPDXRef-DOCUMENT", "name": ANY, "documentNamespace": URI,
    "creationInfo": {
        "created": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
        "creators": [r"(Person|Organization|Tool): \S.*"]},
    "packages": [{
        "name": ANY, "SPDXID": ID, "downloadLocation": LOCATION,
        "filesAnalyzed": "False", "licenseConcluded": LICENSE,
        "licenseDeclared": LICENSE, "copyrightText": ANY,
        "primaryPackagePurpose": "SOURCE|LIBRARY",
        "externalRefs": [REFERENCE],
        "versionInfo?": ANY, "packageFileName?": ANY, "comment?": ANY,
        "supplier?": r"Organization: \S.*", "checksums?": [CHECKSUM]}],
    "files": [{
        "fileName": r"\./\S+", "SPDXID": ID, "fileTypes": ["SOURCE"],
        "licenseConcluded": LICENSE, "licenseInfoInFiles": [LICENSE],
        "copyrightText": ANY, "checksums": [CHECKSUM]}],
    "relationships": [{
        "spdxElementId": ID, "relatedSpdxElement": ID,
        "relationshipType": KINDS}],
}


def faults_of(value, form, where):
    if isinstance(form, str):
        if not re.fullmatch(form, str(value)):
            yield f"{where}: {value!r} is not {form}"
    elif isinstance(form, list):
        if not isinstance(value, list) or not value:
            yield f"{where}: not a list, or an empty one"
            return
        for number, one in enumerate(value):
            yield from faults_of(one, form[0], f"{where}[{number}]")
    else:
        known = {key.rstrip("?"): part for key, part in form.items()}
        needed = {key for key in form if not key.endswith("?")}
        for key in needed - value.keys():
            yield f"{where}: no {key}"
        for key in value:
            if key not in known:
                yield f"{where}: {key} is unknown"
                continue
            yield from faults_of(value[key], known[key], f"{where}.{key}")


def faults_of_sums(name, sums, needed):
    contents = (RELEASE / name).read_bytes()
    there = {one["algorithm"]: one["checksumValue"] for one in sums}
    for algorithm in needed - there.keys():
        yield f"{name}: no {algorithm}"
    for algorithm, value in there.items():
        if hashlib.new(algorithm.lower(), contents).hexdigest() != value:
            yield f"{name}: another {algorithm}"


def faults_of_whole(document):
    elements = document["packages"] + document["files"] + [document]
    ids = [element["SPDXID"] for element in elements]
    if len(set(ids)) != len(ids):
        yield "two elements have one SPDXID"
    for relation in document["relationships"]:
        for end in "spdxElementId", "relatedSpdxElement":
            if relation[end] not in ids:
                yield f"a relationship with {relation[end]}, which is nothing"
    related = {end for relation in document["relationships"]
               for end in relation.values()}
    yield from (f"{one} is related to nothing" for one in set(ids) - related)
    for package in document["packages"]:
        if "packageFileName" in package:
            yield from faults_of_sums(package["packageFileName"],
                                      package["checksums"], {"SHA256"})
    for file in document["files"]:
        yield from faults_of_sums(file["fileName"], file["checksums"],
                                  {"SHA1", "SHA256"})


path, = RELEASE.glob("*.spdx.json")
document = json.loads(path.read_text())
faults = [*faults_of(document, DOCUMENT, path.name)]
sys.exit("\n".join(faults or faults_of_whole(document)) or None)
