#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# The distribution's own Python is the one that has its prometheus_client.
"""What idle-server --http serves, read without a browser.

usage: served.py BUILD Page|Metrics

BUILD is a build directory with the examples. Metrics needs promtool and
prometheus_client."""

import base64
import hashlib
import re
import subprocess
import sys
import unittest
import urllib.request

import servers


def fetch(running, path):
    """Header fields and body."""
    with urllib.request.urlopen(running.url + path, timeout=60) as answer:
        return answer.headers, answer.read().decode()


class Page(unittest.TestCase):
    def test_its_hashes_are_those_of_its_script_and_its_style(self):
        with servers.serving() as running:
            fields, page = fetch(running, "")
        policy = fields["Content-Security-Policy"]
        for element in ("script", "style"):
            allowed = re.findall(rf"{element}-src 'sha256-([^']+)';", policy)
            found = re.findall(rf"<{element}>(.*?)</{element}>", page,
                               re.DOTALL)
            digests = [hashlib.sha256(text.encode()).digest()
                       for text in found]
            self.assertEqual(
                allowed, [base64.b64encode(one).decode() for one in digests])


class Metrics(unittest.TestCase):
    """Prometheus's own parser is lenient, that of its Python client reads the
    format by the letter."""

    def setUp(self):
        with servers.serving("--timeout", "200", "--tick", "10") as running:
            with running.connect() as connection:
                self.assertEqual(connection.recv(1), b"")  # timed out
            self.fields, self.text = fetch(running, "metrics")

    def test_they_are_open_metrics(self):
        # pylint: disable=import-outside-toplevel
        from prometheus_client.openmetrics import parser
        self.assertEqual(
            self.fields["Content-Type"],
            "application/openmetrics-text; version=1.0.0; charset=utf-8")
        families = list(parser.text_string_to_metric_families(self.text))
        numbers = {sample.name: sample.value
                   for family in families for sample in family.samples}
        self.assertEqual(numbers["uvwheel_fired_total"], 1)
        for family in families:
            self.assertTrue(family.name.startswith("uvwheel_"))
            self.assertNotEqual(family.documentation, "")
            self.assertEqual(family.unit, "seconds" if family.name.endswith(
                "_seconds") else "")

    def test_promtool_finds_no_fault(self):
        # It reads the older format, in which a counter has the name of its
        # sample.
        counters = re.findall("^# TYPE (.*) counter$", self.text, re.MULTILINE)
        older = re.sub(rf"^(# \w+ (?:{'|'.join(counters)}))\b", r"\1_total",
                       self.text, flags=re.MULTILINE)
        checked = subprocess.run(["promtool", "check", "metrics"], input=older,
                                 text=True, capture_output=True, check=False)
        self.assertEqual(checked.stdout + checked.stderr, "")
        self.assertEqual(checked.returncode, 0)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not servers.find_build(sys.argv[1]):
        sys.exit(__doc__)
    unittest.main(argv=[sys.argv[0], sys.argv[2]])
