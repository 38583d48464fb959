#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tracepoints of a library that was built with -Dprobes=enabled.

usage: probes.py notes LIBRARY    those of src/probes.h are in it, with their
                                  arguments, and docs/probes.md tells them
       probes.py parse LIBRARY    bpftrace understands the commands of
                                  docs/probes.md, and finds what they name

Status 77 is for bpftrace without the means to run; the last line says why."""

import re
import shlex
import subprocess
import sys

from documents import TOP, Document

document = Document(TOP / "docs" / "probes.md")


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def probes_of_source():
    """Pairs: a name, and how many arguments."""
    text = (TOP / "src/probes.h").read_text(encoding="utf-8")
    return {(name, int(count)) for count, name in
            re.findall(r"DTRACE_PROBE(\d)\(uvwheel, (\w+),", text)}


def probes_of(library):
    notes = output("readelf", "--notes", "--wide", library).stdout
    return {(name, len(arguments.split())) for name, arguments in
            re.findall(r"Provider: uvwheel\n\s*Name: (\w+)\n.*\n"
                       r"\s*Arguments: (.*)$", notes, re.MULTILINE)}


def probes_of_document():
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", document.text,
                      re.MULTILINE)
    return {(name, len(re.findall("`[a-z]+(?:_[mu]s)?`", arguments)))
            for name, arguments in rows}


def check_notes(library):
    wanted = probes_of_source()
    for place, found in [(library, probes_of(library)),
                         (document.name, probes_of_document())]:
        for probe in sorted(wanted ^ found):
            yield "{}: {} with {} arguments: not in both it and src/probes.h" \
                .format(place, *probe)
    if not wanted:
        yield "no probes"


def parse_commands(library):
    trial = output("bpftrace", "-d", "-e", "BEGIN { exit(); }")
    if trial.returncode != 0:
        print(trial.stdout.strip())
        sys.exit(77)
    names = {name for name, _ in probes_of(library)}
    commands = [shlex.split(line) for _, block in document.blocks("sh")
                for line in block.splitlines() if "bpftrace" in line]
    if len(commands) != 3:
        yield f"{len(commands)} commands, not 3"
    for command in commands:
        script = command[-1].replace("./build/probes/libuvwheel.so", library)
        done = output("bpftrace", "-d", "-e", script)
        if command[:-1] != ["sudo", "bpftrace", "-e"] or done.returncode != 0:
            yield f"{shlex.join(command)}\n{done.stdout}"
        # A dry run looks for a probe only if an argument of it is used.
        found = re.findall(rf"usdt:{re.escape(library)}:uvwheel:(\w+)", script)
        if not found or not set(found) <= names:
            yield f"{shlex.join(command)}: of these probes: {names}"


if len(sys.argv) != 3 or sys.argv[1] not in ("notes", "parse"):
    sys.exit(__doc__)
check = check_notes if sys.argv[1] == "notes" else parse_commands
sys.exit("\n".join(check(sys.argv[2])) or None)
