#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs programs of Debian's packages as they are, and with uvwheel-try both
ways: they do the same, and there is a report.

usage: packaged.py BUILD DIRECTORY PROGRAM

The reports are left in the directory, and their comparison is printed.
"""

import asyncio
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
CLIENTS = 1000
IDLE_S = 2
PATIENCE_S = 20

built = pathlib.Path(sys.argv[1]).resolve()
directory = pathlib.Path(sys.argv[2]).resolve()
program = sys.argv[3]


def report_of(way):
    return directory / f"{program}.{way}"


def command_of(way, command):
    if way is None:
        return command
    return [TOP / "tools" / "uvwheel-try", "--build", built, "--with", way,
            "--output", report_of(way), *command]


def check_report(way, least):
    """It has so many starts, and no more calls are timed than were made."""
    starts, text = 0, report_of(way).read_text()
    assert f"timers by {way} " in text, text
    rows = re.findall(r"^(\w+) +(\d+) +(\d+) +[\d.]+ +[\d.]+$", text, re.M)
    assert len(rows) == 6 and "late  " in text, text
    for row, calls, timed in rows:
        assert int(timed) <= int(calls), text
        starts += int(calls) if row in ("start", "again") else 0
    assert starts >= least, starts


def compare():
    print(f"{program}:", flush=True)
    subprocess.run([TOP / "tools" / "uvwheel-try", "--compare",
                    report_of("uv"), report_of("wheel")], check=True)


# ---- A program that prints and ends ----------------------------------------

def output_of(way, command):
    done = subprocess.run(command_of(way, command), cwd=directory,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    # Durations are not the same each time.
    return re.sub(r" +[0-9.]+ sec\b", " SEC", done.stdout), done.returncode


def ctest():
    command = ["ctest", "--parallel", "1", "--output-on-failure"]
    tests = [f'add_test(quick{i} sleep 0.0{i % 10})' for i in range(40)]
    for i in range(4):
        tests.append(f'add_test(slow{i} sleep 600)')
        tests.append(f'set_tests_properties(slow{i} PROPERTIES TIMEOUT 1)')
    (directory / "CTestTestfile.cmake").write_text("\n".join(tests))
    alone = output_of(None, command)
    assert alone[0], "it prints nothing"
    for way in "uv", "wheel":
        tried = output_of(way, command)
        assert tried == alone, f"alone {alone}, with {way} {tried}"
        check_report(way, 44)


# ---- A name server with a thousand clients ---------------------------------

QUERY = struct.pack("!6H", 4711, 0, 1, 0, 0, 0) + b"\5uvtry\7example\0" + \
    struct.pack("!2H", 1, 1)


def free_port():
    """Nobody listens there, neither by TCP nor by UDP."""
    with socket.socket() as tcp, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        udp.bind(tcp.getsockname())
        return tcp.getsockname()[1]


def await_port(port, server):
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            assert server.poll() is None, "the server has ended"
            time.sleep(0.1)


async def ask(port, times):
    """Returns how long after the last answer the server closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(times):
        await asyncio.sleep(IDLE_S / 8)
        writer.write(struct.pack("!H", len(QUERY)) + QUERY)
        size, = struct.unpack("!H", await reader.readexactly(2))
        answer = await reader.readexactly(size)
        assert answer[:2] == QUERY[:2], answer
    began = time.monotonic()
    assert await reader.read() == b""
    writer.close()
    return time.monotonic() - began


async def judge(port):
    """Half of the clients ask once, the others for longer than the server's
    idle timeout; it closes each of them after the last answer."""
    closes = await asyncio.wait_for(
        asyncio.gather(*(ask(port, 1 + i % 2 * 12) for i in range(CLIENTS))),
        PATIENCE_S)
    assert min(closes) > IDLE_S / 2, "closed early"


def serve(way, command, port):
    with open(directory / f"{program}.log", "w") as log:
        server = subprocess.Popen(command_of(way, command), stdout=log,
                                  stdin=subprocess.DEVNULL,
                                  stderr=subprocess.STDOUT, cwd=directory)
        try:
            await_port(port, server)
            asyncio.run(judge(port))
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE_S) == 0, server.returncode
        except BaseException:
            server.kill()
            print((directory / f"{program}.log").read_text()[-2000:])
            raise


def named():
    port = free_port()
    (directory / "named.conf").write_text(f"""
options {{
  directory "{directory}";
  pid-file none;
  listen-on port {port} {{ 127.0.0.1; }};
  listen-on-v6 {{ none; }};
  recursion no;
  dnssec-validation no;
  tcp-clients {2 * CLIENTS};
  tcp-listen-queue {CLIENTS};
  tcp-initial-timeout 25;
  tcp-idle-timeout {10 * IDLE_S};
}};
controls {{ }};
zone "example" {{ type primary; file "example.zone"; }};
""")
    (directory / "example.zone").write_text("""$TTL 60
@ SOA ns hostmaster 1 60 60 60 60
@ NS ns
ns A 127.0.0.1
uvtry A 127.0.0.2
""")
    for way in None, "uv", "wheel":
        serve(way, ["named", "-g", "-c", directory / "named.conf"], port)
        if way is not None:
            check_report(way, CLIENTS)


os.environ["PATH"] += ":/usr/sbin"
directory.mkdir(parents=True, exist_ok=True)
for old in directory.glob(f"{program}.*"):
    old.unlink()
{"ctest": ctest, "named": named}[program]()
compare()
