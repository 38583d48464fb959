#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads what `meson test` logged and prints one line per test program:

passed|failed|skipped <TAB> how many <TAB> the program <TAB> why

A check suite and a unittest count their cases, any other program counts as
one.
Fails if there is none. usage: tally.py JOB <TESTLOG.JSON
"""

import json
import re
import sys


def last_line(text):
    lines = (text or "").strip().splitlines()
    return lines[-1].strip() if lines else "it does not say why"


def tally(test):
    result, output = test["result"], test.get("stdout", "")
    if result == "SKIP":
        yield "skipped", 1, last_line(output)
        return
    sums = re.findall(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)\r?$",
                      output, re.MULTILINE)
    skipped = 0
    for ran, rest in re.findall(
            r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(.*)$",
            test.get("stderr", ""), re.MULTILINE):
        counts = dict(re.findall(r"(\w+)=(\d+)", rest))
        # Each case of a table may fail, or be skipped, by itself.
        skipped = min(int(counts.get("skipped", 0)), int(ran))
        sums.append((int(ran) - skipped, counts.get("failures", 0),
                     counts.get("errors", 0)))
    if skipped:
        yield "skipped", skipped, "something is not built, or not there"
    checks = sum(int(checks) for checks, _, _ in sums)
    failed = sum(int(fails) + int(errors) for _, fails, errors in sums)
    if sums and checks == 0 and not skipped:
        yield "failed", 1, "it ran no case"
    elif result not in ("OK", "EXPECTEDFAIL"):
        failed = max(failed, 1)  # all cases may pass and a sanitizer object
        yield "failed", failed, result.lower()
    elif not sums:
        checks = 1
    if checks > failed:  # subtests may fail more often than there are tests
        yield "passed", checks - failed, ""


def main():
    job, empty = sys.argv[1], True
    for line in sys.stdin:
        test, empty = json.loads(line), False
        name = re.split(r" / |:", test["name"])[-1]
        for outcome, count, why in tally(test):
            print(outcome, count, f"{job}: {name}", why, sep="\t")
    return empty


sys.exit(main())
