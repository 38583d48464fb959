#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/demo, for seconds, on programs that are built already: on good ones,
and on bad ones."""

import os
import signal
import unittest

import programs


class Demo(programs.Case):
    def expect_table(self, options, *says, **how):
        """A small run prints its table."""
        result = self.run_program(
            "DEMO", f"--build {os.environ['BUILT']} {options}", **how)
        self.assertEqual(result.status, 0, result.err + result.out)
        self.assert_has(result.out, says)
        self.assertLessEqual(max(map(len, result.out.splitlines())), 110)

    def test_the_table(self):
        self.expect_table(
            "--connections 100 --timeout 600", "connections",
            "messages echoed", "timer refreshes", "on time", "lateness",
            "wrong closes", "CPU", "bytes per timer", "uv_timer_t",
            "no timeouts\n")

    def test_it_makes_do_with_few_descriptors(self):
        self.expect_table(
            "--timeout 600", "100 connections instead of 10000",
            "no timeouts\n", descriptors=132)

    @unittest.skipUnless(programs.is_built("UDP_LOAD"), "no UDP")
    def test_the_table_of_sessions(self):
        self.expect_table(
            "--million --connections 1000 --timeout 1000",
            "uv_timer_t          uvwheel\n",
            "sessions at once                                  1,000"
            "            1,000",
            "sessions made per second", "datagrams answered per second",
            "CPU time of the server",
            "its timer                                   152 bytes"
            "         64 bytes",
            "memory of the server",
            "sessions expired                                    800"
            "              800",
            "before their timeout                                0"
            "                0",
            "lateness: median", "99 % below", "max",
            "longest iteration of the loop")

    @unittest.skipUnless(programs.is_built("UDP_LOAD"), "no UDP")
    def test_the_table_of_trouble(self):
        self.expect_table(
            "--trouble --connections 100",
            "uv_timer_t  2nd chance     uvwheel\n",
            "frozen for 5 s, 50 keep sending: closed",
            "blocked for 4 s, 15 keep sending: closed",
            "UDP, frozen for 4 s, 15 keep sending: lost",
            "100 expire at once: longest iteration",
            "full: served of 1 newcomers")

    @programs.each(("uv", 0), ("wheel", 1))
    def test_only_a_wheel_that_breaks_a_promise_fails_it(self, kind, status):
        os.environ["only"] = f"--timer {kind}"
        result = self.run_program(
            "DEMO",
            f"--build {os.environ['LIAR']} --connections 100 --timeout 1500")
        self.assertIn("a connection was closed before its timeout", result.err)
        self.assertEqual(result.status, status)

    @programs.each(signal.SIGINT, signal.SIGTERM)
    def test_a_demo_that_is_stopped_leaves_nothing_running(self, number):
        # Under load. What it has started would hold its stdout or stderr.
        running = self.start(
            "DEMO", f"--build {os.environ['BUILT']} --connections 100")
        running.err.readline()
        self.assertEqual(running.stop(number).status, 128 + number)


programs.main()
