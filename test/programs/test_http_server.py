#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The HTTP server closes who is too slow, says why, and closes nobody else. What
counts is its log, not when a client sees something: so a machine that freezes
or is busy changes nothing. With --second its seconds are short. What a kernel
acknowledges, and when, is real."""

import collections
import concurrent.futures
import ctypes
import os
import re
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

CLONE_NEWNET = 0x40000000
MANY = 20
HELLO = b"hello\n"
WORKED = b"worked\n"


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


def post(length):
    return f"POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode()


class Case(programs.Case):
    host = "127.0.0.1"
    start_in = connect_in = staticmethod(lambda function, *arguments:
                                         function(*arguments))

    def start_server(self, second_ms, words="", **how):
        words = f"--bind {self.host} --port 0 --second {second_ms} {words}"
        self.log = tempfile.TemporaryFile()
        self.addCleanup(self.log.close)
        self.server = self.start_in(
            lambda: self.start("HTTP_SERVER", words, stdout=self.log, **how))
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

    def many(self, sent):
        return [self.connect(sent) for _ in range(MANY)]

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

    def served(self):
        """A peer at rest, whom the server has read after the earlier ones."""
        connection = self.connect(get("/"))
        self.assert_answer(connection)
        return connection

    def closed(self):
        return re.findall(r":(\d+) closed: (\w+),", self.read_log())

    def reasons(self):
        return collections.Counter(reason for _, reason in self.closed())

    def reasons_of(self, connections):
        """Why the server has closed them: waits for that."""
        return {self.await_log(rf":{one.getsockname()[1]} closed: (\w+),")
                for one in connections}

    def are_open(self, connections):
        ports = {str(one.getsockname()[1]) for one in connections}
        return ports.isdisjoint(port for port, _ in self.closed())

    def end(self, signals=1):
        """It ends after so many, and has nothing to complain of. Where a
        second is long, those that are open take two."""
        for _ in range(signals):
            self.server.kill(signal.SIGTERM)
            self.await_log(r"\n(ends with)")
        self.assertEqual((self.server.err.read(), self.server.process.wait()),
                         ("", 0))


class Timeouts(Case):
    @each(
        ("head", b"", b"", b""),
        ("head", b"", b"GET / HTTP/1.1\r\nHost: a\r\n", b""),
        ("head", b"", b"GET / HTTP/1.1\r\nHost: ", b"a"),
        ("head", get("/"), b"GET / HT", b""),
        ("body", b"", post(100000), b""),
        ("body", b"", post(100000), b"a"),
        ("body", get("/"), post(100000), b"a"),
        ("idle", get("/"), b"", b""),
        ("stuck", b"", get("/bytes/100000000"), b""),
    )
    def test_who_is_too_slow_is_closed_for_a_reason(self, reason, request,
                                                    sent, goes_on):
        self.start_server(20)
        connections = [self.served() if request else self.connect()
                       for _ in range(MANY)]
        for one in connections:
            one.sendall(sent)
        going = list(connections) if goes_on else []
        while going:
            time.sleep(0.02)
            for one in list(going):
                try:
                    one.send(goes_on)
                except OSError:
                    going.remove(one)
        self.assertEqual(self.reasons_of(connections), {reason})
        self.end()

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

    @unittest.skipUnless(os.environ["HAS_PAGE"], "no libmicrohttpd")
    def test_metrics_have_the_reasons(self):
        self.start_server(20, "--http 0")
        self.reasons_of([self.served(), self.connect(b"G")])
        url = self.await_log(r"live page: (\S+)\n") + "metrics"
        with urllib.request.urlopen(url) as answer:
            text = answer.read().decode()
        for reason in "idle", "head":
            self.assertIn("\nuvwheel_server_closed_total{wheel=\"places\","
                          f"reason=\"{reason}\"}} 1\n", text)
        self.end()

    def test_the_next_request_may_come_too_soon_or_make_no_sense(self):
        self.start_server(20)
        soon = self.connect(get("/") + get("/work/3600"))
        self.assertIn(b"Connection: close\r\n", self.assert_answer(soon))
        wrong = self.served()
        wrong.sendall(b"nonsense\r\n" + bytes(1 << 20))
        self.assertIn(b" 400 Bad Request\r\n", wrong.recv(100))
        self.assertEqual((soon.recv(100), wrong.recv(100)), (b"", b""))
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
        self.start_server(20)
        stream = self.connect(get("/events"))
        self.assertIn(b":\n\n", stream.recv(1000) + stream.recv(1000))
        self.far.ip("link set far down")
        self.assertEqual(self.reasons_of([stream]), {"stuck"})
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
                one.close()
        with self.assertRaises(ConnectionRefusedError):
            self.connect()
        self.assertEqual(self.reasons_of(rest + silent + streams), {"drained"})
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
    def test_newcomers_of_a_byte_push_out_nobody_who_was_served(self):
        self.start_server(1000, "--max-connections 100")
        uploads = [self.served() for _ in range(MANY)]
        for one in uploads:
            one.sendall(post(6))
        live = [self.served() for _ in range(60)]
        newcomers = []
        for _ in range(60):
            newcomers += [self.connect(b"G") for _ in range(20)]
            time.sleep(0.05)
            for one in live[:40]:
                one.sendall(get("/"))
                self.assert_answer(one)
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
        ("idle", get("/"), "shed"),
        ("answers", get("/bytes/100000000"), "full"),
        ("streams", get("/events"), "full"),
    )
    def test_a_newcomer_has_a_place_if_nobody_needs_all(self, what, sent,
                                                        reason):
        self.start_server(1000, f"--max-connections {MANY}")
        for one in self.many(sent):
            if what in ("idle", "answers", "streams"):
                one.recv(1)
        newcomer = self.connect(get("/"))
        if reason == "shed":
            self.assert_answer(newcomer)
        else:
            self.assertEqual(self.reasons_of([newcomer]), {"full"})
        self.assertEqual(self.reasons(), {reason: 1})
        self.end(2)

    def test_without_descriptors_the_idlest_make_room(self):
        self.start_server(1000, descriptors=64)
        for _ in range(200):
            self.served()
        self.assertEqual(set(self.reasons()), {"shed"})
        self.end(2)


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
                    (["-H", "Expect:", "--data-binary", f"@{upload.name}",
                      self.url()], "hello\n"),
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

    def test_wrk_has_no_errors(self):
        self.start_server(1000)
        out = self.run_client("wrk", "-c100", "-d2s", self.url())
        self.assertRegex(out, r"\n +\d+ requests in ")
        self.assertNotRegex(out, "Socket errors|Non-2xx")
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
