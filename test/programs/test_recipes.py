#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The recipes, and the C++ timer, do what they say. They run in virtual time,
where their timers have exact times: on Linux by the file of examples/ that is
made for users' tests. They free what they say may be freed:
test/run sanitize runs them under AddressSanitizer."""

import os
import re
import unittest
from unittest import mock

import programs

TICK_MS = 10  # of all the recipes whose times are looked at
LONGEST = 1 << 16  # what one prints at most; it might go on for ever

freezes = unittest.skipUnless(os.environ["CAN_FREEZE"], "no --wrap")


class Recipes(programs.Case):
    def run_recipe(self, variable):
        program = self.start(variable)
        self.rest = program.out.read(LONGEST)
        self.assertLess(len(self.rest), LONGEST)
        result = program.finish()
        self.assertEqual((result.err, result.status), ("", 0))

    def run_frozen(self, variable, freeze):
        """Its loop is held up from such a ms on for so many (freezing.c)."""
        with mock.patch.dict(os.environ, FREEZE=freeze):
            self.run_recipe(variable)

    def expect(self, pattern):
        """The output goes on with this. Returns its numbers."""
        found = re.match(" *" + pattern, self.rest)
        self.assertTrue(found, f"not '{pattern}' but '{self.rest}'")
        self.rest = self.rest[found.end():]
        return [int(number) for number in found.groups()]

    def expect_event(self, what):
        """The next line says that this happened. Returns when."""
        return self.expect(rf"(\d+) ms: {re.escape(what)}\n")[0]

    def take_out(self, who):
        """The lines about this one are looked at apart."""
        lines = self.rest.splitlines(keepends=True)
        self.rest = "".join(line for line in lines if who not in line)
        return "".join(line for line in lines if who in line)

    def expect_end(self):
        self.assertEqual(self.rest, "")

    def assert_between(self, least, number, most):
        self.assertGreaterEqual(number, least)
        self.assertLessEqual(number, most)

    def assert_punctual(self, time_ms, timeout_ms):
        """At the first tick after so much time, to the tick."""
        self.assert_between(timeout_ms + 1, time_ms, timeout_ms + TICK_MS)

    def expect_punctual(self, what, timeout_ms):
        self.assert_punctual(self.expect_event(what), timeout_ms)

    def test_age_spreads_the_ends_of_what_began_together(self):
        # 5,000 in 12 minutes. By chance 500 in one of them are possible, 550
        # are not.
        self.run_recipe("AGE")
        rest = r"(\d+) in a minute at most, 2500 went, 2500 were closed\n"
        self.assertEqual(self.expect("together: " + rest), [5000])
        most, = self.expect("spread: " + rest)
        self.assert_between(5000 / 12, most, 550)
        self.expect_end()

    def test_client_sends_in_time_and_expects_answers(self):
        self.run_recipe("CLIENT")
        before_ms = 0
        for what, after_ms in (
                ("client: resolve", 0), ("server: answer", 10),
                ("client: connect", 0), ("server: no answer", 100),
                ("client: connect", None), ("server: answer", 20),
                ("client: request", 0), ("server: answer", 50),
                ("server: answer", None), ("server: answer", None),
                ("server: answer", None), ("server: answer", None),
                ("caller: too late", None), ("client: request", 0),
                ("client: copy to the other server", 60),
                ("server: answer", 20), ("client: ping", 400 - 20 - TICK_MS),
                ("server: answer", 10), ("client: ping", None),
                ("server: answer", 10), ("client: close", None)):
            time_ms = self.expect_event(what)
            if after_ms:
                self.assert_punctual(time_ms - before_ms, after_ms)
            elif after_ms == 0:
                self.assertEqual(time_ms, before_ms)
            before_ms = time_ms
        self.expect_end()

    @freezes
    def test_client_gives_its_server_the_time_of_a_stall_but_is_never_late(
            self):
        # From 50 ms to 1050, while it connects; later while it is idle.
        self.run_frozen("CLIENT", "50 1000")
        answers = re.findall(r"(\d+) ms: server: no answer", self.rest)
        self.assertEqual(len(answers), 1)
        self.assert_punctual(int(answers[0]) - 1050, 100)
        self.run_frozen("CLIENT", "1500 1000")
        closed, = re.findall(r"(\d+) ms: client: close", self.rest)
        self.assert_between(2500, int(closed), 2500 + TICK_MS)

    def test_deadlines_that_have_passed_fire_and_dates_survive(self):
        self.run_recipe("DEADLINES")
        self.expect_punctual("request: its deadline has passed", 500)
        self.expect_punctual("request: its deadline has passed",
                             1000 + TICK_MS)
        self.expect_punctual("reminder: the time has come", 3000)
        self.expect_end()

    @freezes
    def test_deadlines_are_kept_through_a_stall(self):
        # From 400 ms to 1400.
        self.run_frozen("DEADLINES", "400 1000")
        for _ in range(2):
            self.assert_between(
                1400, self.expect_event("request: its deadline has passed"),
                1400 + TICK_MS)
        self.expect_punctual("reminder: the time has come", 3000)
        self.expect_end()

    def test_keep_alive_pings_the_quiet_and_gives_up_the_dead_and_the_unused(
            self):
        self.run_recipe("KEEP_ALIVE")
        readers = self.take_out("reader")
        self.assertLessEqual(self.expect_event("mortal: quiet, ping"),
                             6000 + TICK_MS)
        before_ms = self.expect_event("mortal: message")
        for what, timeout_ms in (("quiet, ping", 6000), ("pong", 50),
                                 ("quiet, ping", 6000),
                                 ("no answer, dead", 300)):
            time_ms = self.expect_event("mortal: " + what)
            self.assert_punctual(time_ms - before_ms, timeout_ms)
            before_ms = time_ms
        most, = self.expect(r"(\d+) pings in 100 ms at most, 2999 unused\n")
        self.assert_between(3000 / 60, most, 150)
        self.expect_end()
        # One whose pong comes behind a message that takes 32 steps: until it
        # has that it is alive, and not unused.
        self.rest = readers
        self.expect_event("reader: quiet, ping")
        self.assert_punctual(self.expect_event("reader: pong"),
                             50 + 32 * (500 + TICK_MS))
        for _ in range(2):
            self.expect_event("reader: quiet, ping")
            self.expect_event("reader: pong")
        self.expect_punctual("reader: unused", 2 * 15000 + TICK_MS)
        self.expect_end()

    @freezes
    def test_keep_alive_pings_in_time_and_forgives_silence_through_a_stall(
            self):
        # From 22 s to 32 s. The reader is to be pinged after 22.4 s, and was
        # heard to be in use last after 15 s.
        self.run_frozen("KEEP_ALIVE", "22000 10000")
        self.rest = self.take_out("reader")
        self.expect_event("reader: quiet, ping")
        self.expect_event("reader: pong")
        self.assert_between(32000, self.expect_event("reader: quiet, ping"),
                            32000 + TICK_MS)
        self.expect_event("reader: pong")
        self.expect_event("reader: quiet, ping")
        self.expect_event("reader: pong")
        self.assertGreater(self.expect_event("reader: unused"), 40000)
        self.expect_end()

    def test_pressure_shortens_the_timeout_of_those_that_are_there(self):
        # Seconds last 100 ms there. When memory is short, 100,000 connections
        # are open, 2,000 for each second. One more has spoken in the 48th
        # second, and goes on. Another one comes in the 60th second.
        self.run_recipe("PRESSURE")
        for second in range(50, 71):
            silent = 100000 if second == 50 else max(0, 2000 * (57 - second))
            self.assertEqual(self.expect(r"(\d+) s: (\d+) open\n"),
                             [second, 1 + silent + (60 <= second <= 66)])
        self.expect_end()

    @freezes
    def test_pressure_closes_nobody_who_speaks_through_a_stall(self):
        # From half a second later on for 5 s; the new timeout has 6 s.
        self.run_frozen("PRESSURE", "5050 500")
        self.assertRegex(self.rest, "\n70 s: 1 open\n$")

    def test_retries_with_jitter_are_no_herd(self):
        self.run_recipe("RETRY")
        rest = r"1000 answered after \d+ ms, (\d+) at once at worst\n"
        self.assertEqual(self.expect("without jitter: " + rest), [1000])
        self.assertLess(*self.expect("with jitter: " + rest), 200)
        self.expect_end()

    @freezes
    def test_retries_come_in_time_after_a_stall(self):
        # From 1.5 s to 2.5 s, when all wait for their fourth attempt.
        self.run_frozen("RETRY", "1500 1000")
        time_ms, = self.expect("without jitter: 1000 answered after "
                               r"(\d+) ms, 1000 at once at worst\n")
        self.assert_between(2500, time_ms, 2500 + TICK_MS)

    def test_rate_limit_holds_at_any_time_and_wastes_little(self):
        total = 0
        self.run_recipe("RATE_LIMIT")
        while total < 5000:
            time_ms, more = self.expect(r"(\d+) ms: (\d+) bytes\n")
            total += more
            self.assertLessEqual(total, 1000 + 2 * time_ms)
        self.assertLess(time_ms, 2200)
        # In the last pause it does not count as idle.
        self.assert_punctual(self.expect_event("peer: closed") - time_ms,
                             100 + TICK_MS + 150)
        self.expect_end()

    @freezes
    def test_rate_limit_forgives_silence_through_a_stall(self):
        # From 2.3 s to 3.3 s, while the peer, which has been read anew after
        # 2.2 s, may be silent for 150 ms.
        self.run_frozen("RATE_LIMIT", "2300 1000")
        closed, = re.findall(r"(\d+) ms: peer: closed", self.rest)
        self.assertGreater(int(closed), 3400)

    def test_shed_closes_the_idlest_and_of_newcomers_only_a_crowd(self):
        self.run_recipe("SHED")
        self.expect("at rest: 16 served, closed: 0 newcomers, 0 at rest\n")
        self.expect("who ask: 8 served, closed: 0 newcomers, 9 at rest\n")
        self.expect("who say nothing: 0 served, closed: 17 newcomers, "
                    "2 at rest\n")
        self.expect_end()

    @unittest.skipUnless(programs.is_built("CPP_THROWING"), "no C++")
    def test_cpp_timers_end_their_owners_and_exceptions_arrive(self):
        self.run_recipe("CPP_THROWING")
        idle, caught = "idle, words left: 0\n", "caught: a peer is gone\n"
        self.assertEqual(self.rest, 2 * idle + caught + idle + caught)

    @unittest.skipUnless(programs.is_built("CPP_PLAIN"), "no C++")
    def test_cpp_timers_need_no_exceptions(self):
        self.run_recipe("CPP_PLAIN")
        self.assertEqual(self.rest, 3 * "idle, words left: 0\n")
        self.assert_complaint(self.run_program("CPP_PLAIN", "wrong"), 134,
                              "uvwheel: invalid argument")


programs.main()
