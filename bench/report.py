# SPDX-License-Identifier: MIT

"""Makes tables and data for the plots of results.csv, which a benchmark wrote.

usage: report.py DIRECTORY PLOTS [DOCUMENT]

Prints the tables of the results.csv in DIRECTORY, as Markdown. Writes NAME.dat
for plot.gp into PLOTS, for some workloads. In the DOCUMENT replaces the table
below each comment <!-- bench/run: TABLE -->."""

import csv
import pathlib
import re
import statistics
import sys
import textwrap

OURS = "uvwheel"
FLOOR = "floor by call"
# Those that a program would choose from, with their colours in plots.
RIVALS = {OURS: "0xe8590c", "LRU list": "0x8a5a44", "50-line wheel": "0xb08a1e",
          "stamp + sweep": "0x3fb5a8", "libuv uv_timer_t": "0x2b7fd4",
          "libev ev_timer": "0x2f9e61"}
PLOTTED = {FLOOR: "0x808890", **RIVALS}
OTHERS = [OURS, FLOOR, "uvwheel FIFO", "uvwheel 1 ms x 16384",
          "stamp + sweep of a list"]
OPERATIONS = ["start shuffled", "refresh random", "stop shuffled",
              "stop + start", "steady server", "churn from 1 ms to 1 h",
              "expire", "walk in memory order", "walk shuffled",
              "close in memory order", "close shuffled"]
ITERATIONS = ["nothing due", "one due", "one due beside far ones",
              "longest iteration", "a second at rest", "memory per timer"]
MESSAGE, ADDED = "message without timers", "timer per message"
CONNECTIONS = {1000: "1,000 connections", 10000: "9,500 connections"}
PLOTS = ["refresh random", "steady server", "expire"]
SIZES = [1000, 10000, 100000, 1000000]
# Of each table: its workloads, its columns, its numbers of timers.
TABLES = {"summary": (["refresh random", "steady server", "start shuffled",
                       "stop shuffled", "expire", "longest iteration",
                       "memory per timer", ADDED], [*RIVALS][:-1], SIZES[1:2]),
          "operations": (OPERATIONS, RIVALS, SIZES),
          "iterations": (ITERATIONS, RIVALS, SIZES[1::2]),
          "others": (OPERATIONS[:3] + ["steady server", "expire"]
                     + ITERATIONS[2:5], OTHERS, SIZES[1::2])}


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


def median(values):
    return number(statistics.median(values)) if values else "-"


def table(units, cells, name):
    workloads, rivals, sizes = TABLES[name]
    sizes = [n for n in sizes if any(key[2] == n for key in cells)]
    heads = [" / ".join(f"{n:,}" for n in sizes), *rivals]
    lines = ["| " + " | ".join(heads) + " |",
             "|---|" + "---:|" * len(rivals)]
    for workload in workloads:
        lists = [[cells.get((rival, workload, n)) for n in sizes]
                 for rival in rivals]
        shown = [i for i in range(len(sizes)) if any(row[i] for row in lists)]
        texts = [" / ".join(median(row[i]) for i in shown) if any(row) else ""
                 for row in lists]
        if any(texts):
            lines.append(f"| {workload}, {units[workload]} | "
                         + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n" if lines[2:] else ""


def message_table(cells):
    """What a timer adds to a message, with the least and the most."""
    plain = [[value for (_, workload, size), values in cells.items()
              if (workload, size) == (MESSAGE, n) for value in values]
             for n in CONNECTIONS]
    if not all(plain):
        return ""
    lines = ["| µs per message | " + " | ".join(CONNECTIONS.values()) + " |",
             "|---|---:|---:|", "| none | " + " | ".join(
                 median(values) for values in plain) + " |"]
    for rival in [FLOOR, *RIVALS]:
        added = [cells.get((rival, ADDED, n)) for n in CONNECTIONS]
        if all(added):
            lines.append(f"| {rival} | " + " | ".join(
                f"{statistics.median(values):+.2f}"
                f" ({min(values):+.2f} to {max(values):+.2f})"
                for values in added) + " |")
    return "\n".join(lines) + "\n"


def print_ratios(cells):
    print("\nHow many times as fast as each rival\n")
    for workload in OPERATIONS + ITERATIONS:
        for n in SIZES[1::2]:
            found = {rival: statistics.median(cells[rival, workload, n])
                     for rival in PLOTTED if (rival, workload, n) in cells}
            if OURS in found and len(found) > 1:
                print(f"{workload}, {n:,} timers: " + ", ".join(
                    f"{rival} {number(value / found[OURS])}"
                    for rival, value in found.items() if rival != OURS))


def print_spread(cells):
    spreads = sorted(
        (max(values) - min(values)) / 2 / statistics.median(values)
        for values in cells.values() if len(values) > 1 and min(values) > 0)
    if spreads:
        print("\nHalf of the cells vary by up to "
              f"±{spreads[len(spreads) // 2]:.0%}, nine of ten by up to "
              f"±{spreads[len(spreads) * 9 // 10]:.0%}.")


def print_faster_rivals(cells):
    """A line for each workload, with the rivals that are faster."""
    print("\nWhere a rival is faster\n")
    for (rival, workload, n), ours in cells.items():
        if rival != OURS or workload not in OPERATIONS + ITERATIONS[:-1]:
            continue
        others = {other: cells.get((other, workload, n)) for other in RIVALS}
        medians = {other: statistics.median(values)
                   for other, values in others.items() if values}
        faster = [f"{other} {number(medians[other])}"
                  for other in sorted(medians, key=medians.get)
                  if medians[other] < medians[OURS]]
        if faster:
            line = (f"{workload}, {n:,} timers, uvwheel "
                    f"{number(medians[OURS])}: " + ", ".join(faster))
            print(textwrap.fill(line, 100, subsequent_indent="  "))


def write_plot_data(cells, plots):
    """One block per rival, as gnuplot's index and columnheader want it."""
    for name in PLOTS:
        file_name = name.replace(" ", "-")
        blocks = []
        for rival, colour in PLOTTED.items():
            points = sorted((key[2], statistics.median(values))
                            for key, values in cells.items()
                            if key[:2] == (rival, name))
            if points[1:]:
                blocks.append(f'"{rival}"\n' + "".join(
                    f"{n} {value} {colour}\n" for n, value in points))
        if blocks:
            path = plots / (file_name + ".dat")
            path.write_text("\n\n".join(blocks), encoding="utf-8")


def main():
    directory, plots, *documents = map(pathlib.Path, sys.argv[1:])
    units, cells = read(directory / "results.csv")
    tables = {"messages": message_table(cells)}
    for name in TABLES:
        tables[name] = table(units, cells, name)
    for name, lines in tables.items():
        if lines:
            print(f"\n{name}\n\n{lines}", end="")
    print_ratios(cells)
    print_spread(cells)
    print_faster_rivals(cells)
    write_plot_data(cells, plots)
    for document in documents:
        document.write_text(re.sub(
            r"(<!-- bench/run: (\w+) -->\n)((?:\|.*\n)*)",
            lambda match: match[1] + (tables[match[2]] or match[3]),
            document.read_text(encoding="utf-8")), encoding="utf-8")


main()
