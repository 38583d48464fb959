# SPDX-License-Identifier: MIT
"""Servers of a build directory, with their pages."""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import urllib.request

build = None  # the directory


def find_build(directory):
    """Says whether the examples are there."""
    global build
    build = pathlib.Path(directory).resolve()
    return (build / "examples/idle-server").exists()


class Server:
    """An idle-server or multi-loop, its echo port and its page."""

    def __init__(self, *options, program="idle-server"):
        self.process = subprocess.Popen(
            [build / "examples" / program, "--port", "0", "--http", "0",
             *options],
            stdout=subprocess.PIPE, text=True)
        self.port = self.read_port(r"listening on [^,]*:(\d+)")
        http_port = self.read_port(r"live page: .*:(\d+)/$")
        self.url = f"http://127.0.0.1:{http_port}/"

    def read_port(self, pattern):
        return int(re.match(pattern, self.process.stdout.readline())[1])

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port))

    def frame(self):
        with urllib.request.urlopen(self.url + "frame", timeout=60) as answer:
            return json.load(answer)


@contextlib.contextmanager
def serving(*options, **more):
    server = Server(*options, **more)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.communicate()
        status = server.process.returncode
    assert status == 0, f"the server ended with status {status}"
