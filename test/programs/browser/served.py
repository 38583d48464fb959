#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What idle-server and multi-loop serve with --http, read without a browser.

usage: served.py BUILD Page|Metrics

BUILD is a build directory with the examples. Metrics needs promtool."""

import pathlib
import re
import subprocess
import sys
import unittest
import urllib.request

import servers

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[2]
RULES = TOP / "examples/live/uvwheel.rules.yml"


def fetch(running, path):
    """Header fields and body."""
    with urllib.request.urlopen(running.url + path, timeout=60) as answer:
        return answer.headers, answer.read().decode()


def names_in(text):
    """Of the metrics."""
    return set(re.findall(r"^(uvwheel_\w+)", text, re.MULTILINE))


class Page(unittest.TestCase):
    def test_it_is_whole_and_never_stored(self):
        with servers.serving() as running:
            fields, page = fetch(running, "")
        self.assertRegex(page, r"(?s)^<!doctype html>.*</html>\n$")
        self.assertNotRegex(page, r"<(style|script)>\n")
        self.assertRegex(fields["Content-Type"], "^text/html")
        self.assertEqual(fields["Cache-Control"], "no-store")

    def test_metrics_have_the_names_of_the_statistics(self):
        header = (TOP / "include/uvwheel.h").read_text()
        fields = re.search(r"struct uvwheel_stats_s \{(.*?)\n\}", header,
                           re.DOTALL)[1]
        names = set(re.findall(r"uint64_t (\w+)", fields)) - {"reserved"}
        self.assertGreater(len(names), 15)
        with servers.serving() as running:
            served = names_in(fetch(running, "metrics")[1])
        for name in names:
            name = "uvwheel_" + re.sub("_[mu]s$", "_seconds", name)
            self.assertTrue({name, name + "_total",
                             name.replace("_sum_seconds", "_seconds_sum"),
                             name + "_seconds_bucket"} & served, name)


class Metrics(unittest.TestCase):
    """The page hears of other loops once a second."""

    def setUp(self):
        self.text = ""
        with servers.serving("--threads", "3", "--timeout", "200",
                             program="multi-loop") as running:
            with running.connect() as connection:
                self.assertEqual(connection.recv(1), b"")  # timed out
            while not re.search(r"uvwheel_fired_total\S+ 1\n", self.text):
                self.fields, self.text = fetch(running, "metrics")
        self.served = names_in(self.text)

    def test_the_format_is_that_of_prometheus(self):
        self.assertEqual(self.fields["Content-Type"],
                         "text/plain; version=0.0.4; charset=utf-8")
        self.assert_no_fault("check", "metrics", stdin=self.text)

    def test_rules_fire_when_they_should(self):
        self.assert_no_fault("check", "rules", "--lint-fatal", str(RULES))
        self.assert_no_fault("test", "rules", str(HERE / "rules.test.yml"))

    def test_rules_ask_for_metrics_that_are_served(self):
        rules = "".join(re.findall(r"expr:(.*?)(?:for|labels):",
                                   RULES.read_text(), re.DOTALL))
        judged = set(re.findall(r"uvwheel_\w+", rules))
        self.assertEqual(judged - self.served, set())
        bad = re.findall(r"^# HELP (\w+) .*Bad when", self.text, re.MULTILINE)
        self.assertGreater(len(bad), 5)
        for name in bad:
            self.assertTrue(judged & {name, name + "_bucket"}, name)

    def assert_no_fault(self, *command, stdin=None):
        checked = subprocess.run(["promtool", *command], input=stdin,
                                 text=True, capture_output=True, check=False)
        output = checked.stdout + checked.stderr
        self.assertEqual(checked.returncode, 0, output)
        if stdin is not None:
            self.assertEqual(output, "")


if __name__ == "__main__":
    if len(sys.argv) != 3 or not servers.find_build(sys.argv[1]):
        sys.exit(__doc__)
    unittest.main(argv=[sys.argv[0], sys.argv[2]])
