#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What all programs and scripts do alike: bad input is one line on stderr, and
--help names the options."""

import programs
from programs import each


class CommandLines(programs.Case):
    def run_built(self, variable, words, **how):
        if not programs.is_built(variable):
            self.skipTest("it is not built")
        return self.run_program(variable, words, **how)

    @each(
        ("IDLE_SERVER", "--bogus", "unrecognized option '--bogus'"),
        ("IDLE_SERVER", "--port", "requires an argument"),
        ("IDLE_SERVER", "--port 65536",
         "--port takes a number from 0 to 65535"),
        ("IDLE_SERVER", "--timeout 5s", "not '5s'"),
        ("IDLE_SERVER", "--bind no.such.host.invalid", "no such address"),
        ("IDLE_SERVER", "stray", "unexpected argument 'stray'"),
        ("PLAIN_SERVER", "--timer uv --http 0", "--http shows the wheel"),
        ("MULTI_LOOP", "--threads 65 --http 0",
         "--http shows at most 64 threads"),
        ("UDP_SESSIONS", "--timer none",
         "--timer takes wheel, uv or chance, not"),
        ("IDLE_LOAD", "--timeout 99", "--timeout must be 0 or at least 100"),
        ("UDP_LOAD", "--peers 16000001", "takes a number from 1 to 16000000"),
        ("MIGRATE_AFTER", "-5", "usage: "),
        ("DEMO", "--bogus", "unknown option '--bogus'"),
        ("DEMO", "--timeout 1.5", "--timeout takes a number"),
        ("TRY", "--with sundial true", "--with takes uv or wheel"),
        ("TRY", "--with uv", "no command is given"),
        ("TRY", "--tick 0 true", "--tick takes a number"))
    def test_wrong_usage_is_one_line_and_status_2(self, program, words,
                                                  complaint):
        result = self.run_built(program, words)
        self.assert_complaint(result, 2, complaint)
        self.assertEqual(result.out, "")

    @each(
        (31, "IDLE_SERVER", "--port 0",
         "31 descriptors (ulimit -n) are too few"),
        (64, "IDLE_LOAD", "--connections 48",
         "64 descriptors (ulimit -n) are too"),
        (None, "PLAIN_SERVER", "--port 0 --http 0",
         "built without libmicrohttpd"),
        (None, "DEMO", "--build /nowhere",
         "there is no /nowhere/examples/idle-serv"))
    def test_what_it_cannot_do_is_one_line_and_status_1(
            self, descriptors, program, words, complaint):
        result = self.run_built(program, words, descriptors=descriptors)
        self.assert_complaint(result, 1, complaint)

    # Also by a server that would share it.
    @each("IDLE_SERVER", "MULTI_LOOP")
    def test_a_port_in_use_is_one_line_and_status_1(self, second):
        server, port = self.listening("IDLE_SERVER", "--port 0")
        result = self.run_program(second, f"--port {port}")
        self.assert_complaint(result, 1, "address already in use")
        self.stop_well(server)

    # That of a program in C is made of the table of its options.
    @each(
        ("IDLE_SERVER", "  --timer KIND", "  --help", "Ctrl-C"),
        ("DEMO", "--connections", "--million", "--timeout", "--build",
         "--help", "--trouble"),
        ("TRY", "--with uv", "--with wheel", "--tick", "--output", "SIGUSR2",
         "SIGKILL"))
    def test_help_names_every_option(self, program, *names):
        result = self.run_built(program, "--help")
        self.assertEqual(result.status, 0)
        self.assert_has(result.out, names)

    # A reader waits for these lines.
    @each(("IDLE_SERVER", "--port 0"), ("MIGRATE_AFTER", "1000"),
          ("DEMO", "--help"))
    def test_it_ends_as_a_failure_if_it_cannot_write_to_stdout(self, program,
                                                               words):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = self.run_built(program, words, stdout=full)
        self.assert_complaint(result, 1, "")


programs.main()
