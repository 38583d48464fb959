#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/demo, for seconds, on programs that are built already."""

import os
import signal
import unittest

import programs
from programs import each

has_udp = unittest.skipUnless(programs.is_built("UDP_LOAD"), "no UDP")


class Demo(programs.Case):
    def expect_table(self, options, *says):
        """A small run prints its table."""
        result = self.run_program(
            "DEMO", f"--build {os.environ['BUILT']} {options}")
        self.assertEqual(result.status, 0, result.err + result.out)
        self.assert_has(result.out, says)
        self.assertLessEqual(max(map(len, result.out.splitlines())), 110)

    def test_the_table(self):
        self.expect_table(
            "--connections 100 --timeout 600", "timer refreshes", "on time",
            "wrong closes", "bytes per timer", "uv_timer_t", "no timeouts\n")

    @has_udp
    def test_the_table_of_sessions(self):
        self.expect_table(
            "--million --connections 1000 --timeout 1000",
            "its timer                                   152 bytes"
            "         64 bytes",
            "sessions expired                                    800"
            "              800",
            "before their timeout                                0"
            "                0")

    @has_udp
    def test_the_table_of_trouble(self):
        self.expect_table(
            "--trouble --connections 100",
            "uv_timer_t  2nd chance     uvwheel\n",
            "frozen for 5 s, 50 keep sending: closed",
            "UDP, frozen for 4 s, 15 keep sending: lost",
            "full: served of 1 newcomers")

    @each(signal.SIGINT, signal.SIGTERM)
    def test_a_demo_that_is_stopped_leaves_nothing_running(self, number):
        # Under load. What it has started would hold its stdout or stderr.
        running = self.start(
            "DEMO", f"--build {os.environ['BUILT']} --connections 100")
        running.err.readline()
        self.assertEqual(running.stop(number).status, 128 + number)


programs.main()
