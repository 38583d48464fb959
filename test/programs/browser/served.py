#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# The distribution's own Python is the one that has its prometheus_client.
"""What idle-server and multi-loop serve with --http, read without a browser.

usage: served.py BUILD Page|Metrics

BUILD is a build directory with the examples. Metrics needs promtool and
prometheus_client."""

import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import unittest
import urllib.request

import servers

HERE = pathlib.Path(__file__).resolve().parent
RULES = HERE.parents[2] / "examples/live/uvwheel.rules.yml"


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

    def test_a_sample_has_the_name_of_its_wheel(self):
        # pylint: disable=import-outside-toplevel
        from prometheus_client.openmetrics import parser
        with servers.serving("--threads", "3",
                             program="multi-loop") as running:
            _, text = fetch(running, "metrics")
        for family in parser.text_string_to_metric_families(text):
            self.assertEqual({sample.labels["wheel"]
                              for sample in family.samples}, {"1", "2", "3"})

    def test_promtool_finds_no_fault(self):
        # It reads the older format, in which a counter or an info has the name
        # of its sample, and an info is a gauge.
        older = self.text
        for kind, suffix in (("counter", "_total"), ("info", "_info")):
            names = re.findall(f"^# TYPE (.*) {kind}$", older, re.MULTILINE)
            older = re.sub(rf"^(# \w+ (?:{'|'.join(names)}))\b",
                           rf"\1{suffix}", older, flags=re.MULTILINE)
        older = re.sub("_info info$", "_info gauge", older, flags=re.MULTILINE)
        self.assert_no_fault("check", "metrics", stdin=older)

    def test_rules_fire_when_they_should(self):
        self.assert_no_fault("check", "rules", "--lint-fatal", str(RULES))
        self.assert_no_fault("test", "rules", str(HERE / "rules.test.yml"))

    def test_each_figure_that_can_be_bad_has_an_alert(self):
        expressions = "".join(re.findall(
            r"expr:(.*?)(?:for|labels):", RULES.read_text(), re.DOTALL))
        used = set(re.findall(r"uvwheel_\w+", expressions))
        served = set(re.findall(r"^(uvwheel_\w+)", self.text, re.MULTILINE))
        self.assertEqual(used - served, set())
        bad = re.findall(r"^# HELP (\w+) .*Bad when", self.text, re.MULTILINE)
        self.assertGreater(len(bad), 5)
        for name in bad:
            self.assertTrue(used & {name, name + "_total", name + "_bucket"},
                            name)

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
