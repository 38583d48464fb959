#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Every command of the CI's workflows is test/run with jobs that exist."""

import itertools
import re
import subprocess
import sys

import yaml

from documents import TOP


def commands(job):
    """What it runs, once for each combination of its matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    for step in job["steps"]:
        command = step.get("run") or step.get("with", {}).get("run")
        for values in itertools.product(*matrix.values()):
            names = dict(zip(matrix, values))
            if command is not None:
                yield re.sub(r"\$\{\{ matrix\.(\w+) \}\}",
                             lambda found: names[found[1]], command)


known = {line.split()[0] for line in subprocess.check_output(
    [TOP / "test/run", "--list"], text=True).splitlines()}
found = [command for path in (TOP / ".github/workflows").glob("*.yml")
         for job in yaml.safe_load(path.read_text())["jobs"].values()
         for command in commands(job)]
wrong = [command for command in found
         if not re.match("test/run .", command)
         or set(command.split()[1:]) - known]
if not found:
    wrong = ["no workflow runs anything"]
sys.exit("\n".join(wrong) or None)
