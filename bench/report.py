# SPDX-License-Identifier: MIT

"""Makes tables and data for the plots of results.csv, which a benchmark wrote.

usage: report.py DIRECTORY PLOTS [DOCUMENT...]

Prints the tables of the results.csv in DIRECTORY, as Markdown. Writes NAME.dat
for plot.gp into PLOTS, for some workloads. In each DOCUMENT replaces what
follows a comment <!-- bench/run: NAME -->, up to the next empty line: a table,
those of instructions.txt, or the paragraph about the machine of machine.txt.
Replaces the rows of a table that tell the capacity of a loop, too."""

import csv
import pathlib
import re
import statistics
import sys
import textwrap

OURS = "uvwheel"
# Those that a program would choose from, with their colours in plots.
RIVALS = {OURS: "0xe8590c", "LRU list": "0x8a5a44", "50-line wheel": "0xb08a1e",
          "stamp + sweep": "0x3fb5a8", "lazy uv_timer_t": "0x8e5bd0",
          "uv_timer_t": "0x2b7fd4"}
OTHERS = [OURS, "across two lines", "FIFO", "1 ms x 16384"]
OPERATIONS = ["start shuffled", "refresh random", "stop shuffled",
              "steady server", "expire"]
CALLS = ["close", "fire_soonest"]
ITERATIONS = ["nothing due", "one due", "one due beside far ones",
              "longest iteration", "memory per timer"]
MESSAGE, ADDED = "message without timers", "timer per message"
CONNECTIONS = {1000: "1,000 connections", 10000: "9,500 connections"}
# What the README calls the workloads.
SUMMARY = {ADDED: "a message over TCP, µs", "refresh random": "refresh, ns",
           "steady server": "steady server, ns", "start shuffled": "start, ns",
           "stop shuffled": "stop, ns", "expire": "expire, ns",
           "longest iteration": "longest iteration, ms",
           "memory per timer": "bytes"}
PLOTS = ["refresh random", "steady server", "expire"]
SIZES = [1000, 10000, 100000, 1000000]
# Of each table: its workloads, its columns, its numbers of timers.
TABLES = {"summary": (SUMMARY, RIVALS, SIZES[1::2]),
          "operations": (OPERATIONS, RIVALS, SIZES),
          "iterations": (ITERATIONS, RIVALS, SIZES[1::2]),
          "calls": (CALLS, RIVALS, SIZES[1::2] + [10000000]),
          "others": (OPERATIONS[:3] + ["steady server", "expire"]
                     + ITERATIONS[2:4], OTHERS, SIZES[1::2])}


def read(path):
    """Units by workload, and lists of values by rival, workload and number."""
    units, cells = {}, {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = row["rival"], row["workload"], int(row["n"])
            cells.setdefault(key, []).append(float(row["value"]))
            units[row["workload"]] = row["unit"].replace("us", "µs")
    return units, cells


def number(value):
    if abs(value) >= 99.5:
        return f"{value:,.0f}"
    return f"{value:.2g}" if abs(value) >= 0.1 else f"{value:.2f}"


def cell(cells, rival, workload, sizes):
    """The medians; one if they are the same, as bytes are."""
    values = [cells.get((rival, workload, n)) for n in sizes]
    shown = number if workload != ADDED else "{:+.2f}".format
    texts = [shown(statistics.median(one)) if one else "-" for one in values]
    if not any(values):
        return ""
    return " / ".join(texts[:1] if len({*texts}) == 1 else texts)


def table(units, cells, name):
    workloads, rivals, sizes = TABLES[name]
    sizes = [n for n in sizes if any(key[2] == n for key in cells)]
    rivals = [rival for rival in rivals
              if any((rival, workload, n) in cells
                     for workload in workloads for n in sizes)]
    if rivals == [OURS] and name == "others":
        return ""
    heads = [" / ".join(f"{n:,}" for n in sizes), *rivals]
    lines = ["| " + " | ".join(heads) + " |",
             "|---|" + "---:|" * len(rivals)]
    for workload in workloads:
        shown = [n for n in sizes
                 if any((rival, workload, n) in cells for rival in rivals)]
        texts = [cell(cells, rival, workload, shown) for rival in rivals]
        label = (workloads[workload] if isinstance(workloads, dict)
                 else f"{workload}, {units.get(workload)}")
        if any(texts):
            lines.append(f"| {label} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n" if lines[2:] else ""


def plain_messages(cells, n):
    """What all rivals' messages took without timers."""
    return [value for (_, workload, size), values in cells.items()
            if (workload, size) == (MESSAGE, n) for value in values]


def message_table(cells):
    """What a timer adds to a message, with the least and the most."""
    plain = [plain_messages(cells, n) for n in CONNECTIONS]
    if not all(plain):
        return ""
    lines = ["| µs per message | " + " | ".join(CONNECTIONS.values()) + " |",
             "|---|---:|---:|", "| none | " + " | ".join(
                 number(statistics.median(values)) for values in plain) + " |"]
    for rival in RIVALS:
        added = [cells.get((rival, ADDED, n)) for n in CONNECTIONS]
        if all(added):
            lines.append(f"| {rival} | " + " | ".join(
                f"{statistics.median(values):+.2f}"
                f" ({min(values):+.2f} to {max(values):+.2f})"
                for values in added) + " |")
    return "\n".join(lines) + "\n"


def instruction_tables(directory):
    """Those that bench/callgrind has printed, in whole numbers."""
    path = directory / "instructions.txt"
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"(?<=\| )\d+(\.\d+)?(?= \|)",
                  lambda match: f"{float(match[0]):,.0f}", text)
    texts = [part + "\n" for part in text.replace(" - ", "  ").split("\n\n")]
    return dict(zip(["instructions", "turns"], texts))


def spread(cells):
    spreads = sorted(
        (max(values) - min(values)) / 2 / statistics.median(values)
        for values in cells.values() if len(values) > 1 and min(values) > 0)
    if not spreads:
        return ""
    return (f"Half of the cells vary by up to ±{spreads[len(spreads) // 2]:.0%},"
            f" nine of ten by up to ±{spreads[len(spreads) * 9 // 10]:.0%}.")


def machine(directory, cells):
    path = directory / "machine.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    times = max(map(len, cells.values()), default=0)
    text = f"{'; '.join(lines)}; repetitions: {times}. {spread(cells)}"
    return textwrap.fill(" ".join(text.split()), 92) + "\n"


def capacity(cells):
    """Rows of scaling.md: what one core does in a second."""
    steady, expired = (cells.get((OURS, workload, SIZES[-1]))
                       for workload in ["steady server", "expire"])
    rows = {"message echoed over TCP, the kernel's part included":
                (plain_messages(cells, 10000), 1e6, " µs", ""),
            "refresh of a timer, in a steady server with a million":
                (steady, 1e3, " ns", " million"),
            "timer that expires": (expired, 1e3, " ns", " million")}
    for label, (values, per, unit, times) in rows.items():
        if values:
            median = statistics.median(values)
            rate = float(f"{per / median:.2g}")
            yield label, (f"| {label} | {number(median)}{unit} |"
                          f" {rate:,.0f}{times} per second |")


def write_plot_data(cells, plots):
    """One block per rival, as gnuplot's index and columnheader want it."""
    for name in PLOTS:
        file_name = name.replace(" ", "-")
        blocks = []
        for rival, colour in RIVALS.items():
            points = sorted((key[2], statistics.median(values))
                            for key, values in cells.items()
                            if key[:2] == (rival, name))
            if points[1:]:
                blocks.append(f'"{rival}"\n' + "".join(
                    f"{n} {value} {colour}\n" for n, value in points))
        if blocks:
            path = plots / (file_name + ".dat")
            path.write_text("\n\n".join(blocks), encoding="utf-8")


def fill(document, tables, rows):
    text = re.sub(
        r"(<!-- bench/run: (\w+) -->\n\n?)((?:.+\n)*)",
        lambda match: match[1] + (tables[match[2]] or match[3]),
        document.read_text(encoding="utf-8"))
    for label, row in rows:
        text = re.sub(rf"^\| {re.escape(label)} \|.*$", row, text, flags=re.M)
    document.write_text(text, encoding="utf-8")


def main():
    directory, plots, *documents = map(pathlib.Path, sys.argv[1:])
    units, cells = read(directory / "results.csv")
    tables = {name: table(units, cells, name) for name in TABLES}
    tables.update({"messages": message_table(cells), "instructions": "",
                   "turns": "", "machine": machine(directory, cells)})
    tables.update(instruction_tables(directory))
    for name, lines in tables.items():
        if lines:
            print(f"\n{name}\n\n{lines}", end="")
    write_plot_data(cells, plots)
    for document in documents:
        fill(document, tables, [*capacity(cells)])


main()
