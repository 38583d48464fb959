#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uvwheel-try: a program does the same whoever serves its timers, and the report
counts the calls that it made."""

import os
import pathlib
import re
import signal
import subprocess
import tempfile

import programs
from programs import each

WAYS = "uv", "wheel"
ROWS = "init", "start", "again", "stop", "fire", "close"


def calls_of(report):
    """How many calls a report has in each row."""
    return [int(re.search(rf"\n{row} +(\d+) ", report)[1]) for row in ROWS]


class Try(programs.Case):
    def make_directory(self):
        directory = tempfile.TemporaryDirectory(prefix="try-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def command(self, way, options, how):
        """What was built, in that way."""
        return (f"--build {os.environ['BUILT']} --with {way} {options} "
                f"{os.environ['TRY_SUBJECT']} {how}")

    def run_subject(self, way, options, how):
        return self.run_program("TRY", self.command(way, options, how))

    # ---- The same as without -----------------------------------------------

    def test_a_program_does_and_counts_the_same_whoever_serves_its_timers(self):
        # Scenario 46 is one of the calls. The subject forks. The child does all
        # once; the parent has done so three times before, and does once more.
        alone = self.run_program("TRY_SUBJECT")
        self.assertEqual(alone.status, 0)
        of_child = []
        for way in WAYS:
            result = self.run_subject(way, "", "")
            self.assertEqual((result.status, result.out), (0, alone.out))
            before, child, parent = result.err.split("uvwheel-try: ")
            self.assertEqual(before, "")
            of_child.append(calls_of(child))
            self.assertEqual(calls_of(parent),
                             [4 * calls for calls in of_child[-1]])
        self.assertEqual(*of_child)

    # ---- Reports -----------------------------------------------------------

    # A run of the subject with each: a part of the report, and its calls.
    @each(*((way, *row) for way in WAYS for row in (
        # an exit in a callback, with active timers
        ("leave", 3, "timers  2 at most", [2, 2, 0, 0, 1, 0]),
        # a return from main, when their memory is gone
        ("return", 0, "timers  2 at most", [2, 2, 0, 0, 0, 0]),
        ("0", 0, "no timer of libuv was seen", None),
        # fifty loops, one after the other: an active timer is closed, and one
        # that is stopped twice
        ("50 i0 i1 s0:60000 s1:60000 x1 x1 c0 c1 r", 0, "loops: 50\n",
         [100, 100, 0, 100, 0, 100]),
        # two packets stop the timer and start it, another finds it active
        ("1 i0 s0:60000 x0 s0:60000 x0 s0:60000 s0:60000 c0 r", 0,
         "\nrestart 3 starts", [1, 4, 0, 2, 0, 1]))))
    def test_a_report_says_what_the_program_did(self, way, how, status, says,
                                                calls):
        result = self.run_subject(way, "", how)
        self.assertEqual(result.status, status)
        self.assertIn(says, result.err)
        if calls:
            self.assertEqual(calls_of(result.err), calls)

    # ---- Signals -----------------------------------------------------------

    def start_waiting(self, way, options):
        """A subject that does not end by itself, when it runs."""
        program = self.start("TRY", self.command(way, options, "wait"))
        self.assertEqual(program.out.readline(), "ready\n")
        return program

    @each(("uv", "timers by uv", "next "),
          ("wheel", "timers by wheel", "loops: 1"))
    def test_a_signal_asks_for_a_report_and_another_ends_with_one(
            self, way, first, last):
        program = self.start_waiting(way, "")
        program.kill(signal.SIGUSR2)
        programs.await_line(program.err, first)
        programs.await_line(program.err, last)
        result = program.stop()
        self.assertEqual(result.status, 128 + signal.SIGTERM)
        self.assertIn(first, result.err)
        calls_of(result.err)

    @each(*WAYS)
    def test_a_report_goes_to_a_file(self, way):
        self.make_directory()
        path = self.directory / "report"
        path.write_text("of an earlier run")
        options = f"--tick 7 --output {path}"
        self.assertEqual(self.run_subject(way, options, "leave").err, "")
        report = path.read_text()
        self.assertTrue(report.startswith("uvwheel-try: "))
        self.assert_has(report, [f"timers by {way}", " ms on average, "])

    # ---- What cannot work --------------------------------------------------

    # Lines of a shell.
    @each(
        ("$TRY --build $BUILT --output $D/no/uv true", 2, "cannot write to /"),
        ('ln -s ${TRY%/tools/*} "$D/a b"; "$D/a b/tools/uvwheel-try" true', 1,
         "the loader takes no path with a blank"),
        ("$TRY --build $BUILT ls", 0,
         "ls does not link libuv: only what it loads or starts can be"),
        (r"printf '\177ELF' >$D/x; chmod +x $D/x; $TRY --build $BUILT $D/x;"
         "exit 9", 9, "x is linked statically"))
    def test_what_cannot_work_is_told_before_it_runs(self, line, status, says):
        self.make_directory()
        done = subprocess.run(
            line, shell=True, env={**os.environ, "D": str(self.directory)},
            capture_output=True, text=True, check=False)
        self.assertIn(says, done.stderr)
        self.assertNotIn("Building", done.stderr)
        self.assertEqual(done.returncode, status, done.stderr)

    def test_a_build_that_was_killed_is_made_anew_and_one_that_is_whole_is_not(
            self):
        # The first build ends half way, by a meson that kills who called it.
        self.make_directory()
        shell = subprocess.run(
            r"""mkdir $D/bin $D/test
            cp -r ${TRY%/*} ${TRY%/tools/*}/src ${TRY%/tools/*}/include $D
            cp -r ${TRY%/tools/*}/test/tools $D/test
            cat >$D/bin/meson <<'END'
case $1 in
  --version) echo 1.0.1 ;;
  compile)
    mkdir -p "$3/tools/try"
    cp "$BUILT/tools/try/libuvwheel-try.so" "$3/tools/try"
    [ -e "$D/killed" ] || { touch "$D/killed"; kill -KILL $PPID; } ;;
esac
END
            chmod +x $D/bin/meson
            export PATH=$D/bin:$PATH TMPDIR=$D
            for call in first second third; do
              $D/tools/uvwheel-try $TRY_SUBJECT leave >$D/$call 2>&1
              echo $?
              sed -n 's/.*\(Building\|timers by uv\).*/\1/p' $D/$call
            done""",
            shell=True, env={**os.environ, "D": str(self.directory)},
            capture_output=True, text=True, check=False)
        self.assertEqual(shell.stdout.split("\n"), [
            "137", "Building", "3", "Building", "timers by uv", "3",
            "timers by uv", ""])


programs.main()
