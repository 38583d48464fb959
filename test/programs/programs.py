# SPDX-License-Identifier: MIT
"""Runs the example programs as users do, and talks to them."""

import collections
import functools
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import time
import unittest

PATIENCE_S = 15  # a call of a socket that blocks for longer has failed
LIMIT_S = 200  # and a test, or a row of one, that takes longer

# What a program has done; the status is as a shell sees it.
Result = collections.namedtuple("Result", "status out err")


def is_built(*variables):
    """Without uthash or Linux some programs are not built."""
    return all(variable in os.environ for variable in variables)


def each(*rows):
    """A test that is made with each of them."""
    def decorate(test):
        @functools.wraps(test)
        def run(self):
            for row in rows:
                with self.subTest(row):
                    signal.alarm(LIMIT_S)
                    try:
                        test(self, *(row if isinstance(row, tuple) else [row]))
                    finally:
                        self.doCleanups()
        return run
    return decorate


def number_of(output, key):
    """What the last line "key=value ..." that has this key says."""
    return int(re.findall(rf" {key}=(\d+)", output)[-1])


class Program:
    def __init__(self, variable, words, descriptors=None,
                 stdout=subprocess.PIPE):
        """Without a stdout it is closed."""
        def prepare():
            if stdout is None:
                os.close(1)
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE,
                                   (descriptors, descriptors))

        self.process = subprocess.Popen(
            [os.environ[variable], *words.split()], text=True, stdout=stdout,
            stderr=subprocess.PIPE,
            preexec_fn=prepare if descriptors or stdout is None else None)
        self.out, self.err = self.process.stdout, self.process.stderr

    def finish(self):
        """Reads all that it, and whatever it has started, still writes."""
        out, err = [stream.read() if stream else ""
                    for stream in (self.out, self.err)]
        status = self.process.wait()
        return Result(128 - status if status < 0 else status, out, err)

    def kill(self, number):
        self.process.send_signal(number)

    def freeze(self, seconds):
        """Returns when it was thawed; None: somebody else has done that, who
        freezes all programs."""
        self.kill(signal.SIGSTOP)
        time.sleep(seconds)
        state = os.waitpid(self.process.pid, os.WCONTINUED | os.WNOHANG)
        thawed_s = time.monotonic()
        self.kill(signal.SIGCONT)
        return thawed_s if state == (0, 0) else None

    def stop(self, number=signal.SIGTERM):
        self.kill(number)
        return self.finish()

    def clean_up(self):
        self.process.terminate()
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
        for stream in filter(None, (self.out, self.err)):
            stream.close()


def await_line(stream, part):
    """Reads lines until one has this."""
    for line in stream:
        if part in line:
            return line
    raise AssertionError(f"no '{part}'")


class Case(unittest.TestCase):
    """Whatever a test leaves behind ends with it."""

    def setUp(self):
        signal.signal(signal.SIGALRM, self.give_up)
        signal.alarm(LIMIT_S)
        self.addCleanup(signal.alarm, 0)

    def give_up(self, *_):
        raise AssertionError(f"it takes more than {LIMIT_S} s")

    def start(self, variable, words="", **how):
        program = Program(variable, words, **how)
        self.addCleanup(program.clean_up)
        return program

    def run_program(self, variable, words="", **how):
        return self.start(variable, words, **how).finish()

    def listening(self, variable, words, **how):
        """A server, and the port on which it listens."""
        server = self.start(variable, words, **how)
        line = server.out.readline()
        found = re.match(r"listening on 127\.0\.0\.1:(\d+)", line)
        self.assertTrue(found, line)
        return server, int(found[1])

    def assert_complaint(self, result, status, text):
        """It ended with this status and exactly one line on stderr."""
        self.assertIn(text, result.err)
        self.assertEqual(result.err.index("\n"), len(result.err) - 1)
        self.assertEqual(result.status, status)

    def assert_has(self, text, parts):
        for part in parts:
            self.assertIn(part, text)

    def stop_well(self, program, number=signal.SIGTERM):
        """It had nothing to complain of."""
        result = program.stop(number)
        self.assertEqual((result.err, result.status), ("", 0))
        return result

    # ---- Sockets -----------------------------------------------------------

    def keep(self, one):
        self.addCleanup(one.close)
        one.settimeout(PATIENCE_S)
        return one

    def connect_to(self, port, kind=socket.SOCK_STREAM):
        connection = self.keep(socket.socket(socket.AF_INET, kind))
        connection.connect(("127.0.0.1", port))
        return connection

    def assert_echo(self, connection):
        self.assertTrue(is_echoed(connection))


def receive(connection, length):
    """Exactly so many bytes, or less before its end."""
    received = b""
    while len(received) < length:
        more = connection.recv(length - len(received))
        if not more:
            break
        received += more
    return received


def is_echoed(connection):
    """Sends a word. Does it come back, or does the peer close?"""
    try:
        connection.sendall(b"hello")
        return receive(connection, 5) == b"hello"
    except OSError:
        return False


def read_to_end(connection):
    """How many bytes come before the peer closes."""
    length = 0
    try:
        while more := connection.recv(65536):
            length += len(more)
    except ConnectionResetError:
        pass
    return length


def send_until_stuck(connection):
    """Sends zeros until nothing more is taken, and returns how many were. A
    server that reads on although its answers are not read would take all."""
    taken = 0
    connection.settimeout(0.1)
    try:
        while taken < 256 << 20:
            taken += connection.send(bytes(65536))
    except socket.timeout:
        connection.settimeout(PATIENCE_S)
        return taken
    raise AssertionError("it is never stuck")


def reset(connection):
    """Closes so that the peer sees a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                          struct.pack("ii", 1, 0))
    connection.close()


def main():
    unittest.main(warnings="ignore")
