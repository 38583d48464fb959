#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/demo and test/soak, for seconds, on programs that are built already:
on good ones, and on bad ones."""

import os
import re
import signal
import unittest

import programs

SHORT_MINUTES = "--minute 1 --timeout 800 --connections 100"


class Scripts(programs.Case):
    def expect_table(self, script, options, *says, **how):
        """A small run prints its table."""
        result = self.run_program(
            script, f"--build {os.environ['BUILT']} {options}", **how)
        self.assertEqual(result.status, 0, result.err + result.out)
        self.assert_has(result.out, says)
        self.assertLessEqual(max(map(len, result.out.splitlines())), 110)

    def expect_no_rest(self, script, options, stream, lines, number):
        """It is stopped under load, when it has printed so many lines. Nothing
        that it has started is left: none holds its stdout or stderr."""
        running = self.start(script,
                             f"--build {os.environ['BUILT']} {options}")
        for _ in range(lines):
            getattr(running, stream).readline()
        self.assertEqual(running.stop(number).status, 128 + number)


class Demo(Scripts):
    def test_the_table(self):
        self.expect_table(
            "DEMO", "--connections 100 --timeout 600", "connections",
            "messages echoed", "timer refreshes", "on time", "lateness",
            "wrong closes", "CPU", "bytes per timer", "uv_timer_t",
            "no timeouts\n")

    def test_it_makes_do_with_few_descriptors(self):
        self.expect_table(
            "DEMO", "--timeout 600", "100 connections instead of 10000",
            "no timeouts\n", descriptors=132)

    @unittest.skipUnless(programs.is_built("UDP_LOAD"), "no UDP")
    def test_the_table_of_sessions(self):
        self.expect_table(
            "DEMO", "--million --connections 1000 --timeout 1000",
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
            "DEMO", "--trouble --connections 100",
            "uv_timer_t  2nd chance     uvwheel\n",
            "frozen for 5 s, 50 keep sending: closed",
            "blocked for 4 s, 15 keep sending: closed",
            "UDP, frozen for 4 s, 15 keep sending: lost",
            "100 expire at once: longest iteration",
            "full: served of 1 newcomers")

    @programs.each(("uv", 0), ("wheel", 1))
    def test_only_a_wheel_that_breaks_a_promise_fails_it(self, kind, status):
        os.environ.update(options="--timeout 100", lie="",
                          only=f"--timer {kind}")
        result = self.run_program(
            "DEMO",
            f"--build {os.environ['LIAR']} --connections 100 --timeout 1500")
        self.assertIn("a connection was closed before its timeout", result.err)
        self.assertEqual(result.status, status)

    @programs.each(signal.SIGINT, signal.SIGTERM)
    def test_a_demo_that_is_stopped_leaves_nothing_running(self, number):
        self.expect_no_rest("DEMO", "--connections 100", "err", 1, number)


class Soak(Scripts):
    def test_its_lines(self):
        self.expect_table(
            "SOAK", SHORT_MINUTES + " 3", "\n     3 ",
            "none wrong, none left.\n", " KiB after minute 1, ",
            " KiB at the end: not growing.\n")

    def test_one_minute_tells_less(self):
        self.expect_table(
            "SOAK", SHORT_MINUTES + " 1", "none wrong, none left.\n",
            "does not tell whether it grows")

    @programs.each(signal.SIGINT, signal.SIGTERM)
    def test_a_soak_that_is_stopped_leaves_nothing_running(self, number):
        self.expect_no_rest("SOAK", SHORT_MINUTES + " 60", "out", 2, number)

    # A lie is about the server, in sed's language. The first server has libuv's
    # timers, which know no stall; the third one needs memory for all
    # connections it ever had.
    @programs.each(
        (1, "--timeout 400 --timer uv", "",
         "a connection was closed before its timeout"),
        (1, "--timeout 3000", "", "an idle connection was closed too late"),
        (2, "", r"s/ accepted=\([0-9]*\)\(.* rss_kib=\)[0-9]*/"
         r" accepted=\1\2\100/", "the server's memory grew from"),
        (1, "", "s/ active=[0-9]*/ active=7/",
         "has 0 connections and 7 timers"))
    def test_a_bad_server_fails_it_with_one_line(self, minutes, options, lie,
                                                 complaint):
        os.environ.update(options=options, lie=lie, only="")
        result = self.run_program(
            "SOAK",
            f"--build {os.environ['LIAR']} {SHORT_MINUTES} {minutes}")
        # A minute whose peers have found nothing has a line. If the machine was
        # frozen meanwhile, they have not seen when connections were closed.
        lags = re.findall(r"^ +\d+(?: +[\d.]+){6} +([\d.]+)", result.out,
                          re.MULTILINE)
        if "clos" not in complaint or all(float(lag) <= 100 for lag in lags):
            self.assert_complaint(result, 1, complaint)


programs.main()
