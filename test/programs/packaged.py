#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs programs of Debian's packages as they are, and with uvwheel-try both
ways: they do the same, and there is a report.

usage: packaged.py BUILD DIRECTORY PROGRAM

The reports are left in the directory, and their comparison is printed. It is
Debian's Python that finds Debian's uvloop.
"""

import os
import pathlib
import re
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent / "packaged"
CLIENTS = 1000
IDLE_S = 2
PATIENCE_S = 20

built = pathlib.Path(sys.argv[1]).resolve()
directory = pathlib.Path(sys.argv[2]).resolve()


def report_of(program, way):
    return directory / f"{program}.{way}"


def command_of(program, way, command):
    if way is None:
        return command
    return [TOP / "tools" / "uvwheel-try", "--build", built, "--with", way,
            "--output", report_of(program, way), *command]


def check_report(program, way, least):
    """It counts at least that many starts."""
    text = report_of(program, way).read_text()
    assert f"timers by {way} " in text, text
    starts, agains = (
        int(re.search(rf"^{row} +(\d+)", text, re.MULTILINE).group(1))
        for row in ("start", "again"))
    assert starts + agains >= least, text
    assert (way == "wheel") == ("lateness" in text), text


def compare(program):
    print(f"{program}:", flush=True)
    subprocess.run([TOP / "tools" / "uvwheel-try", "--compare",
                    report_of(program, "uv"), report_of(program, "wheel")],
                   check=True)


# ---- Programs that print and end ------------------------------------------

def output_of(program, way, command, directory):
    done = subprocess.run(command_of(program, way, command), cwd=directory,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    # Durations are not the same each time.
    return (re.sub(r" +[0-9.]+ sec\b", " SEC", done.stdout),
            done.returncode)


def check_same(program, command, least):
    alone = output_of(program, None, command, directory)
    assert alone[0], "it prints nothing"
    for way in "uv", "wheel":
        tried = output_of(program, way, command, directory)
        assert tried == alone, f"alone {alone}, with {way} {tried}"
        check_report(program, way, least)


def uvloop():
    check_same("uvloop", [sys.executable, HERE / "timers_asyncio.py"], 9000)


def luv():
    check_same("luv", ["lua5.1", HERE / "timers_luv.lua"], 5000)


def nvim():
    check_same("nvim", ["nvim", "--headless", "-u", "NONE", "-i", "NONE",
                        "-S", HERE / "timers_nvim.lua"], 2000)


def ctest():
    tests = [f'add_test(quick{i} sleep 0.0{i % 10})' for i in range(40)]
    for i in range(4):
        tests.append(f'add_test(slow{i} sleep 600)')
        tests.append(f'set_tests_properties(slow{i} PROPERTIES TIMEOUT 1)')
    (directory / "CTestTestfile.cmake").write_text("\n".join(tests))
    command = ["ctest", "--parallel", "1", "--output-on-failure"]
    check_same("ctest", command, 44)


# ---- Name servers, each with a thousand clients ---------------------------

QUERY = struct.pack("!6H", 4711, 0, 1, 0, 0, 0) + b"\5uvtry\7example\0" + \
    struct.pack("!2H", 1, 1)


def free_port():
    """Nobody listens there, neither by TCP nor by UDP."""
    with socket.socket() as tcp, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        udp.bind(tcp.getsockname())
        return tcp.getsockname()[1]


def ask(client):
    client.sendall(struct.pack("!H", len(QUERY)) + QUERY)


def hear(client):
    """The answer; nothing when the server has closed the connection."""
    answer = b""
    while len(answer) < 2 or len(answer) < 2 + struct.unpack_from(
            "!H", answer)[0]:
        more = client.recv(4096)
        if not more:
            assert not answer, answer
            return None
        answer += more
    assert answer[2:4] == QUERY[:2], answer
    return answer


def connect(port, server):
    limit = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        except ConnectionRefusedError:
            assert server.poll() is None, "the server has ended"
            assert time.monotonic() < limit, "the server does not listen"
            time.sleep(0.1)


def await_closes(clients, selector):
    """When the server closed each of them, after now."""
    began = time.monotonic()
    closed = {}
    for client in clients:
        selector.register(client, selectors.EVENT_READ)
    while len(closed) < len(clients):
        ready = selector.select(PATIENCE_S)
        assert ready, f"{len(clients) - len(closed)} are not closed"
        for key, _ in ready:
            assert hear(key.fileobj) is None
            selector.unregister(key.fileobj)
            closed[key.fileobj] = time.monotonic() - began
    return closed


def judge(port, server):
    """Half of the clients fall silent and are closed, while the others go on;
    then these are."""
    clients = []
    for _ in range(CLIENTS):
        clients.append(connect(port, server))
        ask(clients[-1])
        assert hear(clients[-1]), "closed at once"
    talkers, silent = clients[::2], clients[1::2]
    limit = time.monotonic() + 2 * IDLE_S
    while time.monotonic() < limit:
        for client in talkers:
            ask(client)
        for client in talkers:
            assert hear(client), "one that talks was closed"
        time.sleep(IDLE_S / 8)
    with selectors.DefaultSelector() as selector:
        overdue = await_closes(silent, selector)
        assert max(overdue.values()) < IDLE_S, overdue
        closed = await_closes(talkers, selector)
        assert min(closed.values()) > IDLE_S / 2, "closed early"
    for client in clients:
        client.close()


def serve(program, way, command, port, directory):
    with open(directory / f"{program}.log", "w") as log:
        server = subprocess.Popen(command_of(program, way, command), stdout=log,
                                  stdin=subprocess.DEVNULL,
                                  stderr=subprocess.STDOUT, cwd=directory)
        try:
            judge(port, server)
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE_S) == 0, server.returncode
        except BaseException:
            server.kill()
            print((directory / f"{program}.log").read_text()[-2000:])
            raise


def check_server(program, command, port):
    for way in None, "uv", "wheel":
        serve(program, way, command, port, directory)
        if way is not None:
            check_report(program, way, CLIENTS)


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
  tcp-keepalive-timeout {10 * IDLE_S};
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
    check_server("named", ["named", "-g", "-c", directory / "named.conf"], port)


def kresd():
    port = free_port()
    (directory / "kresd.conf").write_text(f"""
net.listen('127.0.0.1', {port}, {{ kind = 'dns' }})
net.tcp_in_idle({1000 * IDLE_S})
trust_anchors.remove('.')
modules.load('policy')
policy.add(policy.all(policy.DENY))
cache.open(10 * MB, 'lmdb://{directory}/cache')
""")
    check_server("kresd", ["kresd", "-n", "-c", directory / "kresd.conf",
                           directory], port)


PROGRAMS = {f.__name__: f for f in (uvloop, luv, nvim, ctest, named, kresd)}

os.environ["PATH"] += ":/usr/sbin"
directory.mkdir(parents=True, exist_ok=True)
PROGRAMS[sys.argv[3]]()
compare(sys.argv[3])
