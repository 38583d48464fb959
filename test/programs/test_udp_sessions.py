#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""udp-sessions: what a single peer sees of it, and how it ends."""

import signal
import socket
import time

import programs
from programs import number_of

PEERS = 50
NO_IDLE_TIME = "--timeout 600000 "
each_kind = programs.each("wheel", "uv")


class UdpSessions(programs.Case):
    def start_kind(self, kind, options, **how):
        self.server, self.port = self.listening(
            "UDP_SESSIONS", f"--port 0 --timer {kind} {options}", **how)

    def peer(self):
        return self.connect_to(self.port, socket.SOCK_DGRAM)

    def assert_sound(self, created):
        """It must end well, and have made that many sessions, each of which is
        alive or has expired: which of the two depends on the machine if the
        timeout is short."""
        out = self.stop_well(self.server).out
        self.assertEqual(number_of(out, "created"), created)
        self.assertEqual(created - number_of(out, "expired"),
                         number_of(out, "sessions"))
        self.assertEqual(number_of(out, "unsent"), 0)
        return out

    def say(self, peer, text):
        """Sends a datagram and returns the count in its answer, which must
        repeat it."""
        peer.send(text)
        count, _, repeated = peer.recv(65536).partition(b" ")
        self.assertEqual(repeated, text)
        return int(count)

    # ---- A session's life --------------------------------------------------

    @each_kind
    def test_garbage_is_counted_and_comes_back_byte_for_byte(self, kind):
        garbage = bytes((i * i + i // 256) % 256 for i in range(60000))
        self.start_kind(kind, NO_IDLE_TIME)
        peer = self.peer()
        for count, length in enumerate((1, 0, 1000, 60000, 17), 1):
            self.assertEqual(self.say(peer, garbage[:length]), count)
        self.assertEqual(number_of(self.assert_sound(1), "refreshes"), 4)

    @each_kind
    def test_each_address_and_port_is_a_session_of_its_own(self, kind):
        self.start_kind(kind, NO_IDLE_TIME)
        one, two = self.peer(), self.peer()
        three = self.keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.assertEqual(self.say(one, b"one"), 1)
        self.assertEqual(self.say(two, b"two"), 1)
        self.assertEqual(self.say(one, b"one"), 2)
        # The port of the second one, at another address.
        three.bind(("127.0.0.2", two.getsockname()[1]))
        three.connect(two.getpeername())
        self.assertEqual(self.say(three, b"three"), 1)
        self.assert_sound(3)

    @each_kind
    def test_traffic_keeps_a_session(self, kind):
        # The ends of others show that timeouts pass.
        self.start_kind(kind, "--timeout 1000 --tick 10")
        busy, silent = self.peer(), self.peer()
        spoke_s, count = time.monotonic(), self.say(busy, b"one")
        for _ in range(2):
            self.say(silent, b"one")
            while self.say(silent, b"?") != 0:
                time.sleep(0.1)
                before_s, spoke_s = spoke_s, time.monotonic()
                before, count = count, self.say(busy, b"more")
                # Unless this test was stopped for a whole timeout.
                self.assertTrue(count == before + 1 or
                                time.monotonic() - before_s >= 0.999)
        self.stop_well(self.server)

    def test_a_stall_is_not_the_silence_of_who_spoke_once(self):
        self.start_kind("wheel", "--timeout 2000 --tick 10")
        peer = self.peer()
        self.say(peer, b"one")
        thawed_s = self.server.freeze(3.5)
        time.sleep(0.3)
        # Unless this test was stopped for most of the second that it has.
        self.assertTrue(self.say(peer, b"two") == 2 or thawed_s is None or
                        time.monotonic() - thawed_s >= 0.9)
        self.stop_well(self.server)

    # ---- Limits ------------------------------------------------------------

    @each_kind
    def test_over_the_limit_a_datagram_is_refused_and_counted(self, kind):
        self.start_kind(kind, NO_IDLE_TIME + "--sessions 2")
        one, two, three = self.peer(), self.peer(), self.peer()
        self.say(one, b"one")
        self.say(two, b"two")
        three.send(b"three")
        self.assertEqual(self.say(three, b"?"), 0)  # no answer before
        self.assertEqual(self.say(one, b"one"), 2)
        self.assertEqual(self.say(two, b"two"), 2)
        self.assertEqual(number_of(self.assert_sound(2), "refused"), 1)

    @each_kind
    def test_the_end_of_a_session_makes_room_for_another(self, kind):
        self.start_kind(kind, "--timeout 300 --tick 10 --sessions 1")
        one, two = self.peer(), self.peer()
        self.say(one, b"one")
        while self.say(one, b"?") != 0:  # which does not keep it alive
            pass
        self.assertEqual(self.say(two, b"two"), 1)
        self.assertEqual(number_of(self.assert_sound(2), "refused"), 0)

    # ---- How it ends -------------------------------------------------------

    @each_kind
    def test_a_signal_closes_everything(self, kind):
        for number in signal.SIGINT, signal.SIGTERM:
            self.start_kind(kind, NO_IDLE_TIME)
            for _ in range(PEERS):
                self.say(self.peer(), b"hello")
            out = self.stop_well(self.server, number).out
            self.assertEqual(number_of(out, "sessions"), PEERS)
            self.assertEqual(number_of(out, "peak"), PEERS)


programs.main()
