#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Peers of an echo server that closes idle connections: those that speak are
answered and stay, silent ones are closed, and not early.

usage: peers.py PORT IDLE_MS"""

import socket
import sys
import time

PAIRS = 50


def connect(port):
    begin = time.monotonic()
    return socket.create_connection(("127.0.0.1", port), timeout=60), begin


def main():
    port, idle = int(sys.argv[1]), int(sys.argv[2]) / 1000
    speaking = [connect(port)[0] for _ in range(PAIRS)]
    silent = [connect(port) for _ in range(PAIRS)]
    for _ in range(3):
        time.sleep(idle / 2)
        for peer in speaking:
            peer.sendall(b"still here")
            assert peer.recv(100) == b"still here", "no echo"
    for peer, begin in silent:
        assert peer.recv(100) == b"", "an answer to nothing"
        assert time.monotonic() - begin >= idle, "closed early"
    for peer in speaking:
        assert peer.recv(100) == b"", "never closed"


main()
