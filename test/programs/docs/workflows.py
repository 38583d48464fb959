#!/usr/bin/python3
# SPDX-License-Identifier: MIT

"""Every command of the CI's workflows is test/run with jobs that exist."""

import itertools
import pathlib
import re
import subprocess
import sys

import yaml

TOP = pathlib.Path(__file__).resolve().parents[3]


def variants(job):
    """What the job's matrix gives its names, one dictionary for each run."""
    matrix = job.get("strategy", {}).get("matrix", {})
    for values in itertools.product(*matrix.values()):
        yield dict(zip(matrix, values))


def commands(path):
    """The commands that a workflow runs, with its matrices filled in."""
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        for step in job["steps"]:
            command = step.get("run") or step.get("with", {}).get("run")
            if command is not None:
                for names in variants(job):
                    yield re.sub(r"\$\{\{ matrix\.(\w+) \}\}",
                                 lambda found: names[found[1]], command)


def main():
    known = subprocess.run([TOP / "test/run", "--list"], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split()
    found = 0
    wrong = []
    for path in sorted((TOP / ".github/workflows").glob("*.yml")):
        for command in commands(path):
            found += 1
            program, *jobs = command.split()
            if program != "test/run" or not jobs or set(jobs) - set(known):
                wrong.append(f"{path.name}: {command}")
    if wrong or found == 0:
        sys.exit("\n".join(wrong) or "no workflow runs anything")


if __name__ == "__main__":
    main()
