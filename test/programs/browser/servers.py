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

    def __init__(self, *options, http_port=0, program="idle-server"):
        self.process = subprocess.Popen(
            [build / "examples" / program, "--port", "0",
             "--http", str(http_port), *options],
            stdout=subprocess.PIPE, text=True)
        self.port = self.read_port(r"listening on [^,]*:(\d+)")
        self.http_port = self.read_port(r"live page: .*:(\d+)/$")
        self.url = f"http://127.0.0.1:{self.http_port}/"

    def read_port(self, pattern):
        return int(re.match(pattern, self.process.stdout.readline())[1])

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port))

    def frame(self):
        with urllib.request.urlopen(self.url + "frame", timeout=60) as answer:
            return json.load(answer)

    def stop(self):
        self.process.terminate()
        self.process.communicate()
        return self.process.returncode


@contextlib.contextmanager
def serving(*options, **more):
    server = Server(*options, **more)
    try:
        yield server
    finally:
        status = server.stop()
    assert status == 0, f"the server ended with status {status}"
