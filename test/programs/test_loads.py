#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The loads: their verdicts on good servers, on servers in trouble, and on
servers that break one promise each. The test itself is the worst of these."""

import collections
import contextlib
import signal
import socket

import programs
from programs import each, number_of

# A server, and the load that goes with it: the option that says how many peers
# there are, what the server's figures call those that came, and those that were
# idle.
Pair = collections.namedtuple("Pair", "server load count made closed")
TCP = Pair("IDLE_SERVER", "IDLE_LOAD", "--connections", "accepted",
           "idle_closes")
LOOPS = TCP._replace(server="MULTI_LOOP")
UDP = Pair("UDP_SESSIONS", "UDP_LOAD", "--peers", "created", "expired")

RUNNING = "running:"  # the load says, when all peers have said hello

CLOSED = "a connection in use was closed"
EARLY = "a connection was closed before its timeout"
LATE = "an idle connection was closed too late"
MISSING = "an idle connection was never closed"
LOST = "an echo did not come back"
GARBLED = "an echo differs from what was sent"


class Loads(programs.Case):
    pair = TCP

    def choose(self, pair):
        if not programs.is_built(pair.server, pair.load):
            self.skipTest("without uthash or Linux there is no UDP")
        self.pair = pair

    def start_server(self, options):
        self.server, self.port = self.listening(self.pair.server,
                                                f"--port 0 {options}")

    def start_load(self, count, options):
        self.load = self.start(
            self.pair.load,
            f"--port {self.port} {self.pair.count} {count} {options}")

    def finish_load(self):
        self.result = self.load.finish()

    def meet(self, server_options, count, load_options):
        """Lets them meet until the load has its verdict."""
        self.start_server(server_options)
        self.start_load(count, load_options)
        self.finish_load()

    def is_lateness_judged(self):
        """Unless the machine lagged."""
        is_judged = number_of(self.result.out, "lateness_judged") != 0
        lag_ms = number_of(self.result.out, "lag_ms")
        self.assertTrue(is_judged or lag_ms > 100)
        return is_judged

    def assert_good(self):
        self.assertEqual(self.result.status, 0, self.result)
        self.assertEqual(number_of(self.result.out, "wrong"), 0)
        self.assertIn("kept every promise\n" if self.is_lateness_judged()
                      else "lateness is not judged", self.result.err)

    def assert_broken(self, promise):
        self.assertIn(promise, self.result.err, self.result.out)
        self.assertEqual(self.result.status, 1)

    def assert_no_verdict(self, reason):
        self.assertIn(f"{reason}: no verdict\n", self.result.err)
        self.assertNotIn("broken", self.result.err)
        self.assertEqual((self.result.out, self.result.status), ("", 1))


class Verdicts(Loads):
    # The server's and the load's options, and how many are closed in time, and
    # in all. Of a TCP server idle-load has two connections more, its probes. If
    # the machine is frozen there may be more: a probe that was closed connects
    # again, and a UDP peer that was silent for the timeout begins anew.
    @each(
        (TCP, 200, "--timer wheel --timeout 1500",
         "--timeout 1500 --duration 2", 100, 100),
        (TCP, 200, "--timer wheel --timeout 800 --slots 1",
         "--timeout 800 --duration 2 --chatty 100", 0, 0),
        (TCP, 200, "--timer uv --timeout 1500",
         "--timeout 1500 --tick 1 --duration 2", 100, 100),
        (TCP, 200, "--timer none", "--timeout 0 --duration 1", 0, 0),
        (TCP, 200, "--timeout 800 --tick 5000",
         "--timeout 800 --tick 9999 --chatty 0 --together --duration 1",
         200, 200),
        (LOOPS, 200, "--threads 3 --timeout 1000",
         "--timeout 1000 --duration 3", 100, 100),
        (UDP, 2000, "--timer wheel --timeout 1500",
         "--timeout 1500 --duration 2", 1000, 1600),
        (UDP, 2000, "--timer uv --timeout 1500",
         "--timeout 1500 --tick 1 --duration 2 --chatty 60", 800, 800))
    def test_a_good_server_has_kept_every_promise(
            self, pair, count, server_options, options, on_time, closed):
        self.choose(pair)
        self.meet(server_options, count, options)
        self.assert_good()
        is_judged = self.is_lateness_judged()
        is_starved = number_of(self.result.out, "starved") != 0
        if is_judged:
            self.assertEqual(number_of(self.result.out, "on_time"), on_time)
        self.assertGreaterEqual(number_of(self.result.out, "echoes"), 200)
        out = self.stop_well(self.server).out
        made = count + (0 if pair == UDP else 2)
        self.assertGreaterEqual(number_of(out, pair.made), made)
        if is_judged and not is_starved:
            self.assertEqual(number_of(out, pair.made), made)
            self.assertEqual(number_of(out, pair.closed), closed)

    # Because the load was interrupted, or the server is gone.
    @each((TCP, signal.SIGKILL, "--timeout 0", "the server is gone"),
          (LOOPS, signal.SIGINT, "--interval 1", "the server is gone"),
          (UDP, signal.SIGKILL, "", "nobody listens there"),
          (TCP, signal.SIGINT, "", "interrupted"),
          (UDP, signal.SIGTERM, "", "interrupted"))
    def test_an_end_half_way_gives_no_verdict(self, pair, number, options,
                                              reason):
        self.choose(pair)
        self.start_server("")
        self.start_load(200, options)
        programs.await_line(self.load.err, RUNNING)
        if reason == "interrupted":
            self.result = self.load.stop(number)
            self.stop_well(self.server)
        else:
            self.assertEqual(self.server.stop(number).err, "")
            self.finish_load()
        self.assert_no_verdict(reason)


class Promises(Loads):
    # The first rows are seen in time, or not, if the machine lags.
    @each(
        (TCP, LATE, "--timeout 4000", "--timeout 500 --chatty 0 --tick 1"),
        (UDP, LATE, "--timeout 4000", "--timeout 500 --chatty 0 --tick 1"),
        (UDP, EARLY, "--timeout 300", "--timeout 1000 --chatty 0"),
        (TCP, EARLY, "--timeout 200", "--timeout 60000 --chatty 0"),
        (TCP, CLOSED, "--timeout 200",
         "--timeout 60000 --chatty 100 --interval 15000 --duration 3"),
        (TCP, CLOSED, "--timeout 500",
         "--timeout 0 --chatty 100 --interval 50 --first 2000"),
        (TCP, MISSING, "--timer none",
         "--timeout 500 --chatty 0 --patience 500"),
        (UDP, CLOSED, "--timeout 100 --tick 10",
         "--timeout 60000 --chatty 100 --interval 500 --duration 2"),
        (UDP, MISSING, "--timeout 600000",
         "--timeout 500 --chatty 0 --patience 500"),
        (UDP, LOST, "--sessions 10", "--timeout 0 --chatty 0 --patience 500"))
    def test_a_server_unlike_the_one_expected_breaks_a_promise(
            self, pair, promise, server_options, options):
        self.choose(pair)
        self.meet(server_options, 20, f"--duration 1 {options}")
        is_seen_in_time = promise == LATE or (pair, promise) == (UDP, EARLY)
        if not is_seen_in_time or self.is_lateness_judged():
            self.assert_broken(promise)
        self.assertEqual(self.server.stop().status, 0)

    # ---- The test as a bad TCP server --------------------------------------

    def listen(self):
        listener = self.keep(socket.create_server(("127.0.0.1", 0)))
        self.port = listener.getsockname()[1]
        # The test may be slow.
        self.start_load(1, "--chatty 100 --duration 1 --patience 60000 "
                        "--timeout 60000")
        return listener

    @each((GARBLED, lambda text: text[:-1] + bytes([text[-1] ^ 1])),
          (GARBLED, lambda text: text + b"\0"),
          (CLOSED, None), (LOST, None))
    def test_a_bad_echo_is_found(self, promise, garble):
        listener = self.listen()
        probe, connection = [self.keep(listener.accept()[0]) for _ in "12"]
        text = connection.recv(64)
        if garble:
            connection.sendall(garble(text))
        else:
            connection.close()
        # The probe is served well until the load is done, whose end resets it if
        # a byte is under way.
        with contextlib.suppress(ConnectionError):
            while more := probe.recv(64):
                probe.sendall(more)
        self.finish_load()
        self.assert_broken(promise)


STALLED = "--timeout 1000 --duration 1 "


class Trouble(Loads):
    # With libuv's timers as well, else the test could not fail. On a busy
    # machine a second chance loses some peers, too.
    @each(*((kind, *row) for kind in ("wheel", "chance", "uv") for row in (
        (TCP, 100, "", STALLED),
        (TCP, 100, "--block 2", STALLED + "--by-usr1"),
        (UDP, 600, "", STALLED + "--chatty 75 --interval 200"))))
    def test_a_stall_closes_no_peer_of_a_wheel_but_those_of_libuv_timers(
            self, kind, pair, count, server_options, options):
        self.choose(pair)
        # A server that is stopped right before its poll hears its peers first.
        for _ in range(3 if kind == "uv" and not server_options else 1):
            self.start_server(f"--timeout 1000 --timer {kind} {server_options}")
            self.start_load(
                count, f"--pid {self.server.process.pid} --stall 2 {options}")
            self.finish_load()
            starved = number_of(self.result.out, "starved")
            if starved != 0:
                break
        self.assertFalse(self.is_lateness_judged())
        is_prompt = number_of(self.result.out, "delay_ms") <= 100
        if kind == "wheel" or (kind == "chance" and starved == 0):
            self.assert_good()
        elif kind == "uv" and is_prompt:
            self.assert_broken(
                "a peer that spoke got no answer, and was closed")
        elif is_prompt:
            self.assertLess(starved, count / 10)
        out = self.stop_well(self.server).out
        self.assertGreater(number_of(out, pair.closed), 0)
        # Whoever freezes all programs thaws the server, too. Then the load lags.
        if pair == TCP and kind == "wheel" and is_prompt:
            self.assertGreater(number_of(out, "put_back"), 0)


programs.main()
