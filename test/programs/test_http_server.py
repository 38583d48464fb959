#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The HTTP server closes who is too slow, says why, and closes nobody else. What
counts is its log, not when a client sees something: so a machine that freezes
or is busy changes nothing. With --second its seconds are short. What a kernel
acknowledges, and when, is real."""

import collections
import concurrent.futures
import contextlib
import ctypes
import fcntl
import json
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import programs
from programs import each, receive

# Linux; the module has it since Python 3.10.
F_SETPIPE_SZ = 1031
CLONE_NEWNET = 0x40000000
MANY = 20
HELLO = b"hello\n"
WORKED = b"worked\n"


def get(path, fields="", method="GET"):
    return f"{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n".encode()


def post(length, fields=""):
    return get("/", f"Content-Length: {length}\r\n{fields}", "POST")


class Case(programs.Case):
    host = "127.0.0.1"
    start_in = connect_in = staticmethod(lambda function, *arguments:
                                         function(*arguments))

    def start_server(self, second_ms, words="", variable="HTTP_SERVER", **how):
        words = f"--bind {self.host} --port 0 --second {second_ms} {words}"
        self.log = tempfile.TemporaryFile()
        self.addCleanup(self.log.close)
        self.server = self.start_in(
            lambda: self.start(variable, words, stdout=self.log, **how))
        self.port = int(self.await_log(r"listening on \S+:(\d+)\n"))

    def read_log(self):
        return os.pread(self.log.fileno(), 1 << 24, 0).decode()

    def await_log(self, pattern):
        while True:
            is_over = self.server.process.poll() is not None
            if found := re.search(pattern, self.read_log()):
                return found[1]
            self.assertFalse(is_over, self.read_log())
            time.sleep(0.02)

    def connect(self, sent=b""):
        connection = self.keep(self.connect_in(
            socket.create_connection, (self.host, self.port)))
        connection.sendall(sent)
        return connection

    def many(self, sent, count=MANY):
        return [self.connect(sent) for _ in range(count)]

    def assert_answer(self, connection, body=HELLO):
        """Returns its head."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = connection.recv(1)
            self.assertTrue(byte, head)
            head += byte
        self.assertIn(b" 200 OK\r\n", head)
        self.assertTrue(receive(connection, len(body)) == body)
        return head

    def assert_served(self, connection):
        connection.sendall(get("/"))
        self.assert_answer(connection)

    def served(self):
        """A peer at rest, whom the server has read after the earlier ones."""
        connection = self.connect()
        self.assert_served(connection)
        return connection

    def closed_after(self):
        """Who was closed, why, and after how many requests."""
        return re.findall(r":(\d+) closed: (\w+), (\d+) ", self.read_log())

    def closed(self):
        return [row[:2] for row in self.closed_after()]

    def reasons(self):
        return collections.Counter(reason for _, reason in self.closed())

    def reasons_of(self, connections):
        """Why the server has closed them: waits for that."""
        return {self.await_log(rf":{one.getsockname()[1]} closed: (\w+),")
                for one in connections}

    def are_open(self, connections):
        ports = {str(one.getsockname()[1]) for one in connections}
        return ports.isdisjoint(port for port, _ in self.closed())

    def assert_closed(self, connection):
        """Without an answer."""
        try:
            self.assertEqual(connection.recv(1), b"")
        except ConnectionError:
            pass

    def end(self, signals=1):
        """It ends after so many, and has nothing to complain of. Where a
        second is long, those that are open take two."""
        for _ in range(signals):
            self.server.kill(signal.SIGTERM)
            self.await_log(r"\n(ends with)")
        self.assertEqual((self.server.err.read(), self.server.process.wait()),
                         ("", 0))


CHUNKED = get("/", "Transfer-Encoding: chunked\r\n", "POST")
SLOW = (
    # The reason, what is asked and answered, what is sent, what follows it.
    ("head", b"", b"", b""),
    ("head", b"", b"GET / HTTP/1.1\r\nHost: a\r\n", b""),
    ("head", b"", b"GET / HTTP/1.1\r\nHost: ", b"a"),
    ("head", get("/"), b"GET / HT", b""),
    ("head", get("/"), b"GET / HTTP/1.1\r\nHost: ", b"a"),
    ("body", b"", post(100000), b""),
    ("body", b"", post(100000), b"a"),
    ("body", get("/"), post(100000), b"a"),
    ("body", b"", post(9000000) + bytes(5000000), b"a"),  # fast once
    ("body", b"", CHUNKED + b"5;a", b"a"),  # no byte of a body
    ("idle", get("/"), b"", b""),
    ("idle", get("/"), b"", b"\r\n"),
    ("stuck", b"", get("/bytes/100000000"), b""),
    ("done", b"", get("/", "Connection: close\r\n"), b""),
    ("done", b"", get("/", "Connection: close\r\n"), b"a"),
    ("bad", b"", b"nonsense\r\n", b""),
    ("bad", get("/"), b"nonsense\r\n", b"a"),
)


class Timeouts(Case):
    def test_who_is_too_slow_is_closed_for_a_reason(self):
        self.start_server(20)
        rows = [(row, [self.served() if row[1] else self.connect()
                       for _ in range(5)]) for row in SLOW]
        for (_, _, sent, _), connections in rows:
            for one in connections:
                one.sendall(sent)
        for _ in range(600):  # 12 s; who is closed for a reason has 6 at most
            time.sleep(0.02)
            for (_, _, _, goes_on), connections in rows:
                for one in connections:
                    with contextlib.suppress(OSError):
                        one.send(goes_on)
            if len(self.closed()) == 5 * len(rows):
                break
        reasons = dict(self.closed())
        for row, connections in rows:
            with self.subTest(row):
                self.assertEqual({reasons.get(str(one.getsockname()[1]))
                                  for one in connections}, {row[0]})
        self.end()

    def test_who_still_reads_what_the_kernel_has_is_not_idle(self):
        self.start_server(20)
        connection = self.connect(get("/bytes/600000"))
        self.assert_answer(connection, b"")
        for _ in range(60):  # 3 s; an idle peer has 1.5 s
            time.sleep(0.05)
            receive(connection, 10000)
        connection.sendall(get("/"))
        self.assert_answer(connection)
        self.assertEqual(self.reasons_of([connection]), {"idle"})
        self.end()

    def test_a_peer_that_ends_what_it_sends_gets_its_answer(self):
        self.start_server(100)
        connection = self.connect(get("/work/3"))
        connection.shutdown(socket.SHUT_WR)
        self.assert_answer(connection, WORKED)
        self.assertEqual(self.reasons_of([connection]), {"gone"})
        self.end()

    def test_requests_may_come_before_the_answers(self):
        self.start_server(1000)
        connection = self.connect(
            (get("/") + post(5) + b"12345" + get("/bytes/7") + b"\r\n" +
             CHUNKED + b"5\r\n12345\r\n0\r\n\r\n") * 500 +
            get("/work/0") + get("/")[:-2])
        for body in [HELLO, HELLO, bytes(7), HELLO] * 500 + [WORKED]:
            self.assert_answer(connection, body)
        connection.sendall(b"\r\n" + get("/", "Connection: close\r\n") +
                           get("/bytes/100"))
        self.assert_answer(connection)
        self.assertIn(b"Connection: close\r\n", self.assert_answer(connection))
        self.assertEqual(connection.recv(1), b"")
        self.end(2)

    def test_a_first_byte_gives_a_newcomer_no_more_time(self):
        # It comes after 7 "seconds" of 10; others come 5 after the first.
        self.start_server(100)
        connections = self.many(b"")
        time.sleep(0.5)
        others = self.many(b"")
        time.sleep(0.2)
        for one in connections:
            one.send(b"G")
        self.assertEqual(self.reasons_of(connections + others), {"head"})
        ports = [int(port) for port, _ in self.closed()[:MANY]]
        self.assertEqual(set(ports), {one.getsockname()[1]
                                      for one in connections})
        self.end()

    def test_the_end_of_an_answer_is_told_at_once(self):
        # A "second" is 17 minutes.
        self.start_server(1000000)
        for asked, body in (get("/", "Connection: close\r\n"), HELLO), (
                get("/events", method="HEAD"), b""), (
                get("/bytes/-1", "Connection: close\r\n"), bytes(64 << 20)):
            connection = self.connect(asked)
            self.assert_answer(connection, body)
            self.assertEqual(connection.recv(1), b"")
        wrong = self.served()
        wrong.sendall(b"nonsense\r\n" + bytes(1 << 20))
        self.assertIn(b" 400 Bad Request\r\n", wrong.recv(100))
        self.assertEqual(wrong.recv(100), b"")
        self.end(2)

    def test_a_number_of_a_peer_has_a_limit(self):
        self.start_server(20)
        for path, body in ("/work/-1", WORKED), ("/bytes/-1", bytes(64 << 20)):
            self.assert_answer(self.connect(get(path)), body)
        self.end()

    def test_who_can_be_heard_by_nobody_stays(self):
        # A newcomer has 4 s, a peer at rest has 3.75.
        self.start_server(400)
        newcomers, first = self.many(b""), self.server
        self.start_server(50)
        rest = [self.served() for _ in range(MANY)]
        first.kill(signal.SIGSTOP)
        thawed_s = self.server.freeze(6)  # which gives them a second more
        first.kill(signal.SIGCONT)
        time.sleep(0.1)
        if thawed_s is not None:
            for one in newcomers + rest:
                one.sendall(get("/"))
            for one in newcomers + rest:
                self.assert_answer(one)
        self.end()

    def test_a_heartbeat_waits_for_nobody(self):
        # A beat each 3 s; stopped for 2 s, in which one is due. A timer that
        # is put back by that comes a second after it at the earliest. This
        # machine may be slow: once is enough.
        self.start_server(200)
        connection = self.connect(get("/events"))
        for _ in range(3):
            while b":\n\n" not in connection.recv(1000):
                pass
            time.sleep(2)
            self.server.kill(signal.SIGSTOP)
            time.sleep(2)
            self.server.kill(signal.SIGCONT)
            begun_s = time.monotonic()
            self.assertEqual(connection.recv(1000), b":\n\n")
            if time.monotonic() - begun_s < 0.8:
                break
        else:
            self.fail("it is put back")
        self.end(2)


class Bodies(Case):
    def test_a_body_that_is_fast_enough_is_waited_for(self):
        # Half a second for each BODY_PERIOD, in which 5,000 bytes have to come.
        self.start_server(50)
        length, sent, begun_s = 60000, 0, time.monotonic()
        connection = self.connect(post(length))
        while sent < length:
            time.sleep(0.05)
            due = min(length, int((time.monotonic() - begun_s) * 20000))
            connection.sendall(bytes(due - sent))
            sent = due
        self.assert_answer(connection)
        self.end()

    def test_who_waits_for_continue_is_told(self):
        self.start_server(1000)
        connection = self.connect()
        for fields in ("Expect: 100-continue\r\n", "a: b\r\nexpect:\r\n"
                       " 100-Continue\r\n", "", "Expectation: 100-continue\r\n"):
            connection.sendall(post(5, fields)[:-9])
            time.sleep(0.05)
            connection.sendall(post(5, fields)[-9:])
            if "xpect:" in fields:
                told = b"HTTP/1.1 100 Continue\r\n\r\n"
                self.assertEqual(receive(connection, len(told)), told)
            connection.sendall(b"12345")
            self.assert_answer(connection)
        old = self.connect(post(5, "Expect: 100-continue\r\n").replace(
            b"HTTP/1.1", b"HTTP/1.0"))
        time.sleep(0.2)
        old.sendall(b"12345")
        self.assert_answer(old)
        self.end(2)

    def test_a_body_may_begin_after_a_pause(self):
        # 12 "seconds" of the 30 that it has.
        self.start_server(200)
        connections = self.many(post(1000)) + [self.served()
                                               for _ in range(MANY)]
        for one in connections[MANY:]:
            one.sendall(post(1000))
        time.sleep(2.4)
        for pause_s, length in (0.5, 100), (0, 900):
            for one in connections:
                one.sendall(bytes(length))
            time.sleep(pause_s)
        for one in connections:
            self.assert_answer(one)
        self.end()

    def test_what_a_body_does_while_the_server_is_frozen_counts(self):
        # 545 bytes in a "second", in pieces; one comes in the freeze.
        self.start_server(200)
        connections = self.many(post(24000))
        for freeze_s in 0, 1.4, 0, 0:
            for one in connections:
                one.sendall(bytes(6000))
            time.sleep(0.4)
            if freeze_s:
                threading.Timer(1.0, self.server.freeze, [freeze_s]).start()
            time.sleep(1.8)
        for one in connections:
            self.assert_answer(one)
        self.end()

    def test_a_head_is_no_part_of_its_body(self):
        # After 11 "seconds" there are two bytes of a body.
        self.start_server(50)
        connections = self.many(post(3000, f"a: {'a' * 8000}\r\n") + b"a")
        for pause_s, sent in (0.6, b"a"), (0.1, b"a"), (0, bytes(2997)):
            for one in connections:
                with contextlib.suppress(OSError):
                    one.sendall(sent)
            time.sleep(pause_s)
        for one in connections:
            self.assert_closed(one)
        self.assertEqual(self.reasons_of(connections), {"body"})
        self.end()


class Namespace:
    """A network of its own. What is called in it opens sockets and starts
    processes there."""

    def __init__(self):
        self.thread = concurrent.futures.ThreadPoolExecutor(1)
        self.id = self.do(threading.get_native_id)
        if self.do(ctypes.CDLL(None).unshare, CLONE_NEWNET) != 0:
            raise unittest.SkipTest("no network namespace can be made")

    def do(self, function, *arguments):
        return self.thread.submit(function, *arguments).result()

    def ip(self, words):
        result = self.do(lambda: subprocess.run(
            ["ip", *words.split()], stderr=subprocess.PIPE, text=True))
        if result.returncode != 0:
            raise unittest.SkipTest(f"ip {words}: {result.stderr.strip()}")

    def set_most_received(self, size):
        def write():
            with open("/proc/sys/net/ipv4/tcp_rmem", "w") as limits:
                limits.write(f"4096 131072 {size}")
        try:
            self.do(write)
        except OSError as error:  # in a container it may be read-only
            raise unittest.SkipTest(error) from None


@unittest.skipUnless(shutil.which("ip"), "no ip (iproute2)")
class Readers(Case):
    host = "10.0.0.1"

    def setUp(self):
        super().setUp()
        near, far = self.near, self.far = Namespace(), Namespace()
        near.ip("link add name near mtu 1500 type veth "
                f"peer name far mtu 1500 netns {far.id}")
        near.ip("addr add 10.0.0.1/24 dev near")
        near.ip("link set near up")
        far.ip("addr add 10.0.0.2/24 dev far")
        far.ip("link set far up")
        far.set_most_received(6 << 20)  # as in most kernels
        self.start_in, self.connect_in = near.do, far.do

    def test_who_reads_slowly_over_a_network_gets_its_answer(self):
        # A second lasts 60 ms: so 17 KB/s are 1 KB/s, and the others 5, 20 and
        # 50, the last one also after a fast start. Each 9 s there is a look.
        self.start_server(60)
        stuck, *readers = [self.connect(get("/bytes/1000000000"))
                           for _ in range(6)]
        taken = [0] * len(readers)
        receive(readers[-1], 4 << 20)
        begun_s = time.monotonic()
        while (self.are_open([stuck]) or
               time.monotonic() - begun_s < 27):
            time.sleep(0.1)
            for i, rate in enumerate((17000, 80000, 320000, 800000, 800000)):
                due = int((time.monotonic() - begun_s) * rate) - taken[i]
                taken[i] += len(receive(readers[i], due))
        self.assertEqual(self.reasons_of([stuck]), {"stuck"})
        self.assertTrue(self.are_open(readers))
        self.end()

    def test_a_stream_that_nobody_can_take_is_closed(self):
        # After ten beats; a download that is as old after a second look.
        self.start_server(20)
        download = self.connect(get("/bytes/100000000"))
        download.recv(1)
        stream = self.connect(get("/events"))
        self.assertIn(b":\n\n", stream.recv(1000) + stream.recv(1000))
        self.far.ip("link set far down")
        self.assertEqual(self.reasons_of([download, stream]), {"stuck"})
        self.assertEqual(self.closed()[0][0], str(stream.getsockname()[1]))
        self.end()


class Drain(Case):
    def test_what_has_begun_is_answered_and_all_others_go(self):
        self.start_server(500)
        rest = [self.served() for _ in range(MANY)]
        silent = self.many(b"")
        streams = self.many(get("/events"))
        uploads = self.many(post(2000) + bytes(1000))
        heads = self.many(get("/")[:-2])
        works = self.many(get("/work/5"))
        downloads = [self.connect(get("/bytes/8000000")) for _ in range(3)]
        self.served()
        self.server.kill(signal.SIGTERM)
        self.await_log(r"\n(ends with)")
        for one in uploads:
            one.sendall(bytes(1000))
        for one in heads:
            one.sendall(b"\r\n")
        for connections, body in ((uploads, HELLO), (heads, HELLO),
                                  (works, WORKED),
                                  (downloads, bytes(8000000))):
            for one in connections:
                head = self.assert_answer(one, body)
                if connections != downloads:
                    self.assertIn(b"Connection: close\r\n", head)
        with self.assertRaises(ConnectionRefusedError):
            self.connect()
        # Nobody here closes a connection.
        self.assertEqual(self.reasons_of(uploads + heads + works + downloads),
                         {"done"})
        self.assertEqual(self.reasons_of(rest + silent + streams), {"drained"})
        self.end(0)

    def test_those_at_rest_go_one_after_the_other(self):
        self.start_server(1000)
        rest = self.many(b"") + [self.served() for _ in range(MANY)]
        self.server.kill(signal.SIGTERM)
        gone_s = []
        with selectors.DefaultSelector() as selector:
            for one in rest:
                selector.register(one, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    self.assertEqual(key.fileobj.recv(1), b"")
                    selector.unregister(key.fileobj)
                    gone_s.append(time.monotonic())
        self.assertGreater(gone_s[-1] - gone_s[0], 0.5)  # of 5
        self.assertEqual(self.reasons(), {"drained": 2 * MANY})
        self.end(0)

    def test_the_second_signal_ends_it_at_once(self):
        self.start_server(1000000)
        connections = self.many(get("/work/1")) + self.many(b"GET")
        self.served()
        self.end(2)
        self.assertEqual(self.reasons(), {"drained": 2 * MANY + 1})
        self.assertEqual([one.recv(1) for one in connections],
                         [b""] * 2 * MANY)


class Places(Case):
    def test_a_full_server_serves_newcomers_who_are_not_quick(self):
        # All places are held by idle peers. Fifteen newcomers who have not said
        # a word are 50 a second with 0.3 s; then they come all at once.
        self.start_server(1000, "--max-connections 400")
        for _ in range(400):
            self.served()
        waiting = self.many(b"", 15)
        for _ in range(150):
            waiting.append(self.connect())
            self.assert_served(waiting.pop(0))
        for one in waiting:
            self.assert_served(one)
        for _ in range(3):
            for one in self.many(b"", 45):
                self.assert_served(one)
        self.assertEqual({requests for _, _, requests in self.closed_after()},
                         {"1"})
        self.end(2)

    @each(b"", b"G", get("/") + b"G", post(100), post(100) + b"a")
    def test_a_flood_costs_no_live_peer_and_no_honest_newcomer(self, sent):
        self.start_server(1000, "--max-connections 200")
        uploads = [self.served() for _ in range(MANY)]
        for one in uploads:
            one.sendall(post(6))
        live = [self.served() for _ in range(40)]
        honest = []
        for i in range(60):
            self.many(sent)
            newcomer = self.connect()
            for one in live[i % 4::4] + honest:
                self.assert_served(one)
            honest = [newcomer]
        for one in uploads:
            one.sendall(HELLO)
            self.assert_answer(one)
        self.assertTrue(self.are_open(live + uploads))
        self.assertGreater(self.reasons()["shed"], 1000)
        self.end(2)

    @each(
        ("silent newcomers", b"", "shed"),
        ("first heads", b"GET / HTTP/1.1\r\n", "shed"),
        ("first bodies", post(100), "shed"),
        ("next heads", get("/") + b"G", "shed"),
        ("idle", get("/"), "shed"),
        ("last answers", get("/", "Connection: close\r\n"), "shed"),
        ("next bodies", get("/") + post(100), "full"),
        ("answers", get("/bytes/100000000"), "full"),
        ("streams", get("/events"), "full"),
    )
    def test_a_newcomer_has_a_place_if_nobody_needs_all(self, what, sent,
                                                        reason):
        self.start_server(1000, f"--max-connections {MANY}")
        for one in self.many(sent):
            if reason == "full" or b"GET" in sent and "first" not in what:
                one.recv(1)
        newcomer = self.connect(get("/"))
        if reason == "shed":
            self.assert_answer(newcomer)
        else:
            self.assertEqual(self.reasons_of([newcomer]), {"full"})
        self.assertEqual(self.reasons(), {reason: 1})
        self.end(2)

    @unittest.skipUnless(os.environ["HAS_PAGE"], "no libmicrohttpd")
    def test_that_it_is_full_shows(self):
        self.start_server(1000, f"--max-connections {MANY} --http 0")
        for one in self.many(get("/events")):
            one.recv(1)
        self.reasons_of(self.many(b"", 3))
        url = self.await_log(r"live page: (\S+)\n")
        with urllib.request.urlopen(url + "metrics") as answer:
            text = answer.read().decode()
        self.assert_has(text, [
            f"\nuvwheel_server_open{{wheel=\"places\"}} {MANY}\n",
            f"\nuvwheel_server_accepted_total{{wheel=\"places\"}} {MANY}\n",
            "\nuvwheel_server_turned_away_total{wheel=\"places\","
            "reason=\"full\"} 3\n"])
        self.assertNotIn("wheel=\"busy\",reason=", text)
        is_bad = False
        while not is_bad:  # for the page's verdict, within a second
            with urllib.request.urlopen(url + "frame") as answer:
                is_bad = any(json.load(answer)["all"]["turned_away: full_bad"])
        self.end(2)

    @unittest.skipUnless(os.environ["HAS_PAGE"], "no libmicrohttpd")
    def test_the_last_descriptors_are_kept(self):
        # Viewers of the page take more than were counted on, for a while.
        self.start_server(1000, "--http 0", descriptors=64)
        url = self.await_log(r"live page: (\S+)\n")
        page = (self.host, int(url.rstrip("/").rpartition(":")[2]))
        for _ in range(3):
            viewers = [self.keep(socket.create_connection(page))
                       for _ in range(20)]
            self.many(b"", 60)
            with urllib.request.urlopen(url + "metrics"):
                pass
            for one in viewers:
                one.close()
            if "descriptors" in self.reasons():
                break
        self.assertIn("descriptors", self.reasons())
        self.end(2)

    @unittest.skipUnless("STARVING_HTTP_SERVER" in os.environ, "not built")
    def test_without_memory_newcomers_are_turned_away(self):
        self.start_server(1000, variable="STARVING_HTTP_SERVER")
        self.server.kill(signal.SIGSTOP)  # it shall find them all at once
        newcomers = self.many(b"", 40)  # see starving.c
        self.server.kill(signal.SIGCONT)
        for one in newcomers:
            self.assert_closed(one)
        self.served()
        self.assertEqual(self.reasons(), {"memory": 40})
        self.end(2)

    def test_without_descriptors_the_idlest_make_room(self):
        self.start_server(1000, descriptors=64)
        for _ in range(200):
            self.served()
        self.assertEqual(set(self.reasons()), {"shed"})
        self.end(2)


class Log(Case):
    """What becomes of its stdout is nothing to its peers."""

    def start_server(self, stdout):
        with socket.socket() as free:
            free.bind((self.host, 0))
            self.port = free.getsockname()[1]
        self.server = self.start("HTTP_SERVER", f"--port {self.port}",
                                 stdout=stdout)

    def connect(self, sent=b""):
        while self.server.process.poll() is None:
            with contextlib.suppress(ConnectionRefusedError):
                return super().connect(sent)
            time.sleep(0.02)
        self.fail("the server has ended")

    def let_many_go(self):
        """A live peer is served meanwhile."""
        live = self.served()
        for _ in range(300):
            self.served().close()
        self.assert_served(live)
        live.close()

    def end(self, signals=1):
        self.server.kill(signal.SIGTERM)
        self.assertEqual((self.server.err.read(), self.server.process.wait()),
                         ("", 0))

    @each("its reader goes", "/dev/full", "it is closed")
    def test_lines_may_be_lost(self, how):
        ours, its = os.pipe()
        if how == "its reader goes":
            self.start_server(its)
        elif how == "it is closed":
            self.start_server(None)
        else:
            with open(how, "w", encoding="utf-8") as full:
                self.start_server(full)
        os.close(its)
        if how == "its reader goes":
            self.assertIn(b"listening", os.read(ours, 100))
        os.close(ours)
        self.let_many_go()
        self.end()

    def test_a_reader_may_hang(self):
        ours, its = os.pipe()
        fcntl.fcntl(its, F_SETPIPE_SZ, 8192)
        self.start_server(its)
        os.close(its)
        with open(ours, encoding="utf-8") as reader:
            self.let_many_go()
            for _ in range(60):
                self.assertNotIn("lost", reader.readline())
            self.end()
            self.assertRegex(reader.read(),
                             r"(?s)\n\d+ lines lost\n(.*\n)?ends with ")


class Clients(Case):
    """Those that nobody here wrote."""

    def run_client(self, *words):
        if not shutil.which(words[0]):
            self.skipTest(f"no {words[0]}")
        return subprocess.run(words, stdout=subprocess.PIPE, check=True,
                              stderr=subprocess.STDOUT, text=True).stdout

    def url(self, path=""):
        return f"http://{self.host}:{self.port}/{path}"

    def test_curl_is_served(self):
        self.start_server(20)
        with tempfile.NamedTemporaryFile() as upload:
            upload.write(bytes(3 << 20))
            upload.flush()
            for words, expected in (
                    (["--data-binary", f"@{upload.name}", self.url()],
                     "hello\n"),
                    (["-I", self.url("bytes/5")], "Content-Length: 5\n"),
                    (["--http2", self.url(), self.url("work/9")],
                     "hello\nworked\n"),
                    (["-0", self.url()], "hello\n"),
                    (["--limit-rate", "1M", "-o", "/dev/null", "-w",
                      "%{size_download}\n", self.url("bytes/6000000")],
                     "6000000\n")):
                with self.subTest(words):
                    self.assertIn(expected,
                                  self.run_client("curl", "-sS", *words))
        self.end()

    @each(("head", "-H", "", "-i 1"),
          ("body", "-B", "", "-i 1"),
          ("stuck", "-X", "bytes/100000000", "-w 4096 -y 4096 -n 9 -z 1"))
    def test_slowhttptest_is_closed_and_others_are_served(self, reason, mode,
                                                          path, words):
        self.start_server(20)
        self.run_client("slowhttptest", mode, "-c50", "-r50", "-l9", "-p5",
                        "-u", self.url(path), *words.split())
        self.served()
        self.assertGreaterEqual(self.reasons()[reason], 50)
        self.end()


programs.main()
