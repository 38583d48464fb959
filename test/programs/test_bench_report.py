#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/report.py, on results whose tables are known."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HEAD = "rival,workload,n,repetition,value,unit\n"


def results(workload, n, ours, **rivals):
    """Lines of a results.csv: each rival's values, one a repetition."""
    names = {"lru": "LRU list", "uv": "uv_timer_t"}
    rivals = {"uvwheel": ours, **{names[key]: rivals[key] for key in rivals}}
    unit = "us" if "message" in workload else "ns"
    return "".join(f"{rival},{workload},{n},{i},{value},{unit}\n"
                   for rival, values in rivals.items()
                   for i, value in enumerate(values, 1))


class Report(unittest.TestCase):
    def report(self, csv, document=""):
        """Returns what it prints, the document, and the data of its plots."""
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            (directory / "results.csv").write_text(HEAD + csv)
            (directory / "document.md").write_text(document)
            printed = subprocess.run(
                [sys.executable, os.environ["REPORT"], directory, directory,
                 directory / "document.md"],
                check=True, stdout=subprocess.PIPE, text=True).stdout
            return (printed, (directory / "document.md").read_text(),
                    {path.stem: path.read_text()
                     for path in directory.glob("*.dat")})

    def test_the_first_is_bold_and_who_ties_with_it(self):
        printed, _, _ = self.report(results(
            "expire", 1000, [20, 25, 22], lru=[31, 25, 40],
            uv=[300, 26, 310]))
        self.assertIn("| expire, ns | 1,000 | **22** (20–25) | **31** (25–40) |"
                      " 300 (26–310) |\n", printed)

    def test_two_repetitions_decide_nothing(self):
        printed, _, _ = self.report(results(
            "expire", 1000, [20, 22], lru=[40, 44]))
        self.assertIn("| 21 (20–22) | 42 (40–44) |\n", printed)

    def test_a_document_gets_tables_and_rows(self):
        csv = "".join(
            results("steady server", n, [n / 1e4] * 3,
                    lru=[n / 1e4 + 1] * 3)
            + results("message without timers", n, [12, 12, 15])
            + results("timer per message", n, [.1, .2, .3],
                      lru=[-.1, .3, .5]) for n in (10000, 1000000))
        row = "| refresh of a timer, in a steady server with a million |"
        _, text, _ = self.report(csv, (
            f"Before.\n\n<!-- bench/run: summary -->\n\n| old |\n\n{row} x |\n"
            "\n<!-- bench/run: scaling -->\n| old |\n\n"
            "<!-- bench/run: turns -->\n| no run |\n"))
        self.assertEqual(text, (
            "Before.\n\n<!-- bench/run: summary -->\n\n"
            "| 10,000 / 1,000,000; **first, or a tie** | uvwheel | LRU list |\n"
            "|---|---:|---:|\n"
            "| added to a message of 12 µs over TCP, µs | **+0.20** | **+0.30** |\n"
            "| steady server, ns | **1** / **100** | 2 / 101 |\n\n"
            f"{row} 100 ns | 10 million per second |\n\n"
            "<!-- bench/run: scaling -->\n"
            "| a message every 30 s | 1 million connections |"
            " 100 million connections |\n|---|---:|---:|\n"
            "| cores for the messages | 0.4 | 40 |\n"
            "| cores for the timers | 0.003 | 0.3 |\n"
            "| loops, each half busy | 1 | 80 |\n\n"
            "<!-- bench/run: turns -->\n| no run |\n"))

    def test_the_spread_is_in_the_plots(self):
        _, _, plots = self.report("".join(
            results("expire", n, [n, 3 * n, 2 * n])
            for n in (1000, 10000)))
        self.assertEqual(plots, {"expire": (
            '"uvwheel"\n1000 2000.0 1000.0 3000.0 0xe8590c\n'
            "10000 20000.0 10000.0 30000.0 0xe8590c\n")})


if __name__ == "__main__":
    unittest.main()
