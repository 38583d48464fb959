#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The TCP servers: what a single peer sees of them, and how they end."""

import os
import re
import select
import signal
import socket
import sys
import time
import unittest

import programs
from programs import (each, is_echoed, number_of, read_to_end, receive, reset,
                      send_until_stuck)

CONNECTIONS = 50
NEVER_MS = 600000
PLACES = 100
PAGE_PATIENCE_S = 5  # LIVE_PATIENCE_MS
GARBAGE = bytes((i * i + i // 256) % 256 for i in range(16384))

NO_TIMER = "IDLE_SERVER", "--timer none --port 0 --timeout"
WHEEL = "IDLE_SERVER", "--timer wheel --tick 10 --port 0 --timeout"
UV = "IDLE_SERVER", "--timer uv --port 0 --timeout"
MULTI_LOOP = "MULTI_LOOP", "--threads 2 --tick 10 --port 0 --timeout"
AFTER = "MIGRATE_AFTER", ""
# Those that run echo.c, and print a summary.
OF_ECHO = NO_TIMER, WHEEL, UV, MULTI_LOOP
SERVERS = *OF_ECHO, AFTER


def is_received(connection, length):
    try:
        return len(receive(connection, length)) == length
    except ConnectionResetError:
        return False


def is_ended(connection):
    """It was closed in order, and nothing was left to read."""
    is_ready = select.select([connection], [], [], 0)[0] != []
    return is_ready and connection.recv(1) == b""


def get(path, version="1.1", host="Host: localhost\r\n"):
    return f"GET {path} HTTP/{version}\r\n{host}\r\n"


# And the status of its answer.
REQUESTS = (
    (get("/nothing"), 404),
    (get("/frame?wheel=1"), 404),
    (get("/" + "abcdefghijklmnop" * 16), 404),
    (get("/").replace("GET", "POST")[:-2] + "Content-Length: 1\r\n\r\nx", 405),
    (get("localhost:80").replace("GET", "CONNECT"), 405),
    (get("/", "1.0", ""), 403),
    (get("/", host="Host: example.org\r\n"), 403),
    (get("/", host="Host: LOCALHOST:1234\r\n"), 200),
    (get("/", host="Host: [::1]:80\r\n"), 200),
    (get("/frame?wheel=0"), 200),
    (get("/metrics"), 200),  # browser/served.py reads them
    (get("/").replace("GET", "HEAD"), 200),
)


class Case(programs.Case):
    def start_server(self, row, timeout_ms, options="", **how):
        self.row = row
        self.server, self.port = self.listening(
            row[0], f"{row[1]} {timeout_ms} {options}", **how)

    def connect(self):
        return self.connect_to(self.port)

    def newcomer(self):
        """Comes, is served, and says nothing more."""
        connection = self.connect()
        self.assert_echo(connection)
        return connection

    def assert_ends(self, accepted, number=signal.SIGTERM):
        """It ends well, and has none of that many connections any more."""
        out = self.stop_well(self.server, number).out
        if self.row in OF_ECHO:
            self.assertEqual(number_of(out, "accepted"), accepted)
            self.assertEqual(number_of(out, "open"), 0)
        return out

    def assert_sound(self, accepted):
        """The same for a server that must still serve."""
        self.assert_echo(self.connect())
        self.assert_ends(accepted + 1)

    def assert_complained(self, text):
        result = self.server.stop()
        self.assertIn(text, result.err)
        self.assertEqual(result.status, 0)
        self.assertGreater(number_of(result.out, "turned_away"), 0)
        self.assertEqual(number_of(result.out, "shed"), 0)
        self.assertEqual(number_of(result.out, "open"), 0)
        return result.out


class Servers(Case):
    # ---- Echo and timeout --------------------------------------------------

    @each(*SERVERS)
    def test_garbage_is_echoed_byte_for_byte(self, *row):
        self.start_server(row, NEVER_MS)
        connection = self.connect()
        for part in range(20):
            connection.sendall(GARBAGE[part:])
            self.assertTrue(receive(connection, len(GARBAGE) - part) ==
                            GARBAGE[part:])
        self.assert_sound(1)

    @each(*SERVERS[1:])
    def test_silent_connections_are_closed_but_not_early(self, *row):
        self.start_server(row, 300)
        begun = []
        for _ in range(CONNECTIONS):
            begin_s = time.monotonic()
            begun.append((begin_s, self.connect()))
        for begin_s, connection in begun:
            self.assertEqual(read_to_end(connection), 0)
            self.assertGreaterEqual(time.monotonic() - begin_s, 0.3)
        out = self.assert_ends(CONNECTIONS)
        if row in OF_ECHO:
            self.assertEqual(number_of(out, "idle_closes"), CONNECTIONS)

    @each(*SERVERS[1:])
    def test_traffic_keeps_a_connection_open(self, *row):
        # The ends of others show that timeouts pass.
        self.start_server(row, 1000)
        busy, is_kept = self.connect(), True
        spoke_s = time.monotonic()
        for _ in range(2):
            silent = self.connect()
            while is_kept and not select.select([silent], [], [], 0.2)[0]:
                before_s, spoke_s = spoke_s, time.monotonic()
                is_kept = is_echoed(busy)
                # Unless this test was stopped for a whole timeout.
                self.assertTrue(is_kept or
                                time.monotonic() - before_s >= 0.999)
        self.assert_ends(3)

    # One that has said nothing yet, and says something a moment after the stall:
    # a timer that is only started fires at once when the stall ends.
    @each((*WHEEL, 2000, ""), (*WHEEL, 10000, "--shed"),
          (*AFTER, 2000, ""))
    def test_a_newcomer_is_forgiven_its_silence_in_a_stall(
            self, variable, options, timeout_ms, more):
        self.start_server((variable, options), timeout_ms, more)
        newcomer = self.connect()
        self.newcomer()  # so it was accepted
        thawed_s = self.server.freeze(3.5)
        time.sleep(0.3)
        # Unless this test was stopped for most of the second that it has.
        self.assertTrue(is_echoed(newcomer) or thawed_s is None or
                        time.monotonic() - thawed_s >= 0.9)
        self.stop_well(self.server)

    # ---- Peers that behave badly -------------------------------------------

    @each(*OF_ECHO)
    def test_a_peer_that_reads_late_gets_every_byte(self, *row):
        self.start_server(row, NEVER_MS)
        connection = self.connect()
        taken = send_until_stuck(connection)
        for _ in range(20):  # others are served, by each thread
            self.newcomer()
        connection.shutdown(socket.SHUT_WR)
        self.assertEqual(read_to_end(connection), taken)
        self.assert_sound(21)

    @each(*OF_ECHO[1:])
    def test_a_peer_that_never_reads_gets_idle(self, *row):
        self.start_server(row, 1000)
        connection = self.connect()
        with self.assertRaises((ConnectionResetError, BrokenPipeError)):
            while True:
                connection.sendall(bytes(4096))
        self.assert_sound(1)

    @unittest.skipUnless(sys.platform == "linux", "no SIOCOUTQ")
    @each(WHEEL, UV)
    def test_a_peer_that_reads_slowly_is_kept(self, *row):
        # The ends of others show that timeouts pass. In a timeout this one
        # takes so little of what the kernel holds that no write ends.
        self.start_server(row, 1000)
        slow = self.keep(socket.socket())
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        slow.connect(("127.0.0.1", self.port))
        send_until_stuck(slow)
        took_s = time.monotonic()
        for _ in range(3):
            silent, is_kept = self.connect(), True
            while is_kept and not select.select([silent], [], [], 0.05)[0]:
                before_s, took_s = took_s, time.monotonic()
                is_kept = is_received(slow, 8192)
                # Unless this test was stopped for most of a timeout.
                self.assertTrue(is_kept or time.monotonic() - before_s >= 0.9)
        self.stop_well(self.server)

    @each(*SERVERS)
    def test_peers_that_vanish_do_no_harm(self, *row):
        self.start_server(row, NEVER_MS)
        for i in range(CONNECTIONS):
            connection = self.connect()
            if i % 3 > 0:
                self.assert_echo(connection)
            if row in OF_ECHO and i % 25 == 0:
                send_until_stuck(connection)
            if i % 2 == 0:
                reset(connection)
            else:
                connection.close()
        self.assert_sound(CONNECTIONS)

    @each(WHEEL)
    def test_a_connection_that_is_closed_leaves_no_timer(self, *row):
        self.start_server(row, NEVER_MS)
        gone, _ = self.newcomer(), self.newcomer()
        gone.shutdown(socket.SHUT_WR)
        self.assertEqual(read_to_end(gone), 0)  # it is closed there, too
        out = self.stop_well(self.server).out
        self.assertEqual(number_of(out, "active"), 1)

    # ---- Descriptors, places and memory used up ----------------------------

    def is_served(self):
        """The server turns a newcomer away by closing it."""
        with self.connect() as connection:
            return is_echoed(connection)

    def fill_and_recover(self, most):
        """Opens as many as are served, then makes room for one."""
        connections = [self.connect()]
        while is_echoed(connections[-1]):
            self.assertLessEqual(len(connections), most)
            connections.append(self.connect())
        self.assert_echo(connections[0])
        for connection in connections[1:]:
            connection.close()
        while not self.is_served():  # as soon as it has seen them close
            pass

    @each(*OF_ECHO)
    def test_out_of_descriptors_it_says_so_and_recovers(self, *row):
        self.start_server(row, NEVER_MS, descriptors=56)
        self.fill_and_recover(CONNECTIONS)
        self.assert_complained("out of descriptors")

    @each(*OF_ECHO)
    def test_full_it_says_so_and_refuses(self, *row):
        one = "--threads 1" if row == MULTI_LOOP else ""
        self.start_server(row, NEVER_MS, f"--max-connections 3 {one}")
        self.fill_and_recover(3)
        self.assert_complained("full with 3 connections")

    # With so many places, it takes several ticks until all are taken anew.
    @each((WHEEL, None, f"--max-connections {PLACES}", 2 * PLACES),
          (UV, None, f"--max-connections {PLACES}", 2 * PLACES),
          (WHEEL, 156, "", 2 * 156), (MULTI_LOOP, 156, "", 3 * 156))
    def test_full_it_sheds_the_idlest(self, row, descriptors, options,
                                      newcomers):
        self.start_server(row, NEVER_MS, f"--tick 1 --shed {options}",
                          descriptors=descriptors)
        busy, is_good, all_of_them = self.newcomer(), True, []
        for _ in range(newcomers):
            all_of_them.append(self.connect())
            is_good &= is_echoed(all_of_them[-1]) and is_echoed(busy)
        is_good &= all(map(is_ended, all_of_them[:10]))
        out = self.stop_well(self.server).out
        self.assertEqual(number_of(out, "turned_away"), 0)
        self.assertEqual(number_of(out, "idle_closes"), 0)
        self.assertGreater(number_of(out, "shed"), PLACES)
        # A stall puts timers back: those may then be due after newcomers.
        self.assertTrue(is_good or number_of(out, "stalls") != 0)
        if descriptors is None and is_good:
            self.assertEqual(number_of(out, "shed"), PLACES + 1)

    # Each speaks when so many more have come: at 50 a second 15 come in 0.3 s.
    # Or each speaks when a burst of so many has come.
    @each((WHEEL, 4, 1), (WHEEL, 15, 1), (WHEEL, 0, 50), (UV, 15, 1),
          (UV, 0, 50))
    def test_full_it_serves_newcomers_that_speak_a_moment_later(
            self, row, later, burst):
        places = 8 * 50
        self.start_server(row, NEVER_MS, f"--shed --max-connections {places}")
        resting = [self.newcomer() for _ in range(places // 2)]
        time.sleep(0.1)  # several ticks: in one tick nobody is idler
        busy = [self.newcomer() for _ in range(places // 2)]
        newcomers = []
        for _ in range(150 // burst):
            newcomers += [self.connect() for _ in range(burst)]
            while len(newcomers) > later:
                self.assert_echo(newcomers.pop(0))
            self.assert_echo(busy[0])
        for connection in newcomers + busy:
            self.assert_echo(connection)
        self.assertEqual(sum(map(is_ended, resting)), 150)
        out = self.stop_well(self.server).out
        self.assertEqual(number_of(out, "turned_away"), 0)
        self.assertEqual(number_of(out, "shed"), 150)

    def test_newcomers_that_say_nothing_push_out_nobody(self):
        # Places for twice as many: they would be the idlest.
        self.start_server(WHEEL, NEVER_MS,
                          f"--shed --max-connections {2 * CONNECTIONS}")
        speakers = [self.newcomer() for _ in range(CONNECTIONS)]
        for _ in range(4 * CONNECTIONS):
            self.connect()
        self.newcomer()  # those before it have been let in
        for speaker in speakers:
            self.assert_echo(speaker)
        out = self.stop_well(self.server).out
        self.assertGreaterEqual(number_of(out, "shed"), 3 * CONNECTIONS)

    def test_a_newcomer_that_says_nothing_has_less_time_where_others_are_shed(
            self):
        self.start_server(WHEEL, 5000, "--shed")
        speaker = self.newcomer()
        self.assertEqual(read_to_end(self.connect()), 0)
        self.assert_echo(speaker)
        self.stop_well(self.server)

    @each(*OF_ECHO[:3])
    def test_out_of_memory_it_says_so_and_goes_on(self, *row):
        failing_calls = 40  # see starving.c
        self.start_server(("STARVING_SERVER", row[1]), NEVER_MS)
        first = self.newcomer()
        starved = [self.connect() for _ in range(failing_calls)]
        self.assertEqual(sum(map(read_to_end, starved)), 0)
        self.assert_echo(first)
        self.newcomer()
        out = self.assert_complained("out of memory with 1 connections")
        self.assertEqual(number_of(out, "accepted"), 2)
        self.assertEqual(number_of(out, "turned_away"), failing_calls)

    # ---- What it prints, and its end ---------------------------------------

    @each(*((number, *row) for row in OF_ECHO
            for number in (signal.SIGINT, signal.SIGTERM)))
    def test_a_signal_closes_everything(self, number, *row):
        self.start_server(row, NEVER_MS)
        stuck, *others = [self.newcomer() for _ in range(CONNECTIONS)]
        send_until_stuck(stuck)
        self.assert_ends(CONNECTIONS, number)
        self.assertEqual(sum(map(read_to_end, others)), 0)

    # ---- Several threads ---------------------------------------------------

    def test_connections_are_spread_over_the_threads(self):
        # By chance one of four threads gets nothing in one of 10^24 runs.
        self.start_server(MULTI_LOOP, NEVER_MS, "--threads 4")
        for _ in range(200):
            self.newcomer()
        out = self.assert_ends(200)
        self.assert_has(out, ["summary thread=1 ", "summary thread=2 ",
                              "summary thread=3 ", "summary thread=4 ",
                              "summary threads=4 "])
        self.assertNotIn(" accepted=0 ", out)


@unittest.skipUnless(os.environ["HAS_PAGE"], "no libmicrohttpd")
class Pages(Case):
    """Live pages: what browsers, and peers that are none, get to see."""

    def start_with_page(self, row, options="", **how):
        self.start_server(row, NEVER_MS, f"--http 0 {options}", **how)
        line = self.server.out.readline()
        found = re.match(r"live page: http://.*:(\d+)", line)
        self.assertTrue(found, line)
        self.page_port = int(found[1])

    def send(self, request):
        connection = self.connect_to(self.page_port)
        connection.sendall(request.encode())
        return connection

    def ask(self, path):
        return self.send(get(path)).makefile()

    def test_requests_get_their_answer_and_an_error_has_nothing_of_theirs(self):
        self.start_with_page(WHEEL)
        for request, expected in REQUESTS:
            with self.subTest(request):
                answer = self.send(request).makefile(newline="").read()
                head, end, body = answer.partition("\r\n\r\n")
                self.assertRegex(head, rf"^HTTP/1\.1 {expected} ")
                if request.startswith("HEAD"):
                    self.assertEqual((end, body), ("\r\n\r\n", ""))
                if expected == 200:
                    continue
                self.assertIn("\r\nContent-Type: text/plain", head)
                self.assertIn(f"\r\nContent-Length: {len(body)}\r\n",
                              head + "\r\n")
                self.assertRegex(body, r"^[^<>\r\n]+$")
                self.assertEqual("\r\nAllow: GET, HEAD\r\n" in head + "\r\n",
                                 expected == 405)
        self.stop_well(self.server)

    # Browsers open connections in advance. A request that comes byte by byte
    # would take twice as long as it has.
    @each(("", ""), ("GET / HT", ""), ("", get("/")))
    def test_the_patience_of_a_page_ends_whatever_comes(self, sent, rest):
        self.start_with_page(WHEEL)
        begin_s = time.monotonic()
        connection = self.send(sent)
        for byte in rest:
            if select.select([connection], [], [],
                             2 * PAGE_PATIENCE_S / len(rest))[0]:
                break
            connection.sendall(byte.encode())
        self.assertEqual(read_to_end(connection), 0)
        self.assertGreaterEqual(time.monotonic() - begin_s, PAGE_PATIENCE_S)
        self.stop_well(self.server)

    def test_each_wheel_can_be_watched_until_a_signal_comes(self):
        self.start_with_page(MULTI_LOOP, "--threads 3")
        for i in range(3):
            programs.await_line(self.ask(f"/frame?wheel={i}"),
                                f'{{"wheel":{i},')
        self.stop_well(self.server)

    @each(WHEEL, MULTI_LOOP)
    def test_out_of_descriptors_the_page_tells_of_it(self, *row):
        self.start_with_page(row, descriptors=72)
        while is_echoed(self.connect()):
            pass
        programs.await_line(self.ask("/frame"), '"active":[')
        while not re.search(r'uvwheel_server_turned_away_total{wheel="\w+",'
                            r'reason="descriptors"} [1-9]',
                            self.ask("/metrics").read()):
            pass  # another loop answers once a second
        self.assert_complained("out of descriptors")

    def test_a_signal_ends_the_page_whatever_its_connections_do(self):
        self.start_with_page(WHEEL)
        self.connect_to(self.page_port)
        self.connect_to(self.page_port).sendall(b"GET / HT")
        self.ask("/")
        self.ask("/frame")
        self.assert_sound(0)


programs.main()
