# SPDX-License-Identifier: MIT

"""Makes tables and data for the plots of results.csv, which a benchmark wrote.

usage: report.py DIRECTORY PLOTS [DOCUMENT]

Prints the tables of the results.csv in DIRECTORY, as Markdown. Writes NAME.dat
for plot.gp into PLOTS, for some workloads, and removes the plots of an earlier
run from DIRECTORY. In the DOCUMENT replaces the table below each comment
<!-- bench/run: TABLE -->."""

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
ADDED = "timer per message"
PLOTS = ["refresh random", "steady server", "expire"]
SIZES = [1000, 10000, 100000, 1000000]
# Of each table: its workloads, its columns, its numbers of timers.
TABLES = {"summary": (["refresh random", "steady server", "start shuffled",
                       "stop shuffled", "expire", "longest iteration",
                       "memory per timer", ADDED], [*RIVALS][:-1], SIZES[1:2]),
          "messages": (["message without timers", ADDED], [FLOOR, *RIVALS][:-1],
                       SIZES[:2]),
          "operations": (OPERATIONS, RIVALS, SIZES),
          "iterations": (ITERATIONS, RIVALS, SIZES[1::2]),
          "others": (OPERATIONS[:-1] + ITERATIONS[:-1], OTHERS, SIZES[1::2])}


def read(path):
    """Units by workload, and lists of values by rival, workload and number."""
    units, cells = {}, {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = row["rival"], row["workload"], int(row["n"])
            cells.setdefault(key, []).append(float(row["value"]))
            units[row["workload"]] = row["unit"]
    return units, cells


def number(value):
    if abs(value) >= 99.5:
        return f"{value:,.0f}"
    return f"{value:.2g}" if abs(value) >= 0.1 else f"{value:.2f}"


def text(values, workload):
    """Their median; where that may be noise, with the least and the most."""
    shown = number(statistics.median(values))
    if workload == ADDED:
        shown += f" ({min(values):.2f} to {max(values):.2f})"
    return shown


def table(units, cells, name):
    workloads, rivals, sizes = TABLES[name]
    sizes = [n for n in sizes if any(key[2] == n for key in cells)]
    heads = [f"**{rival}**" if rival == OURS else rival for rival in rivals]
    lines = ["| | " + " | ".join(heads) + " |",
             "|---|" + "---:|" * len(heads)]
    for workload in workloads:
        lists = [[cells.get((rival, workload, n)) for n in sizes]
                 for rival in rivals]
        shown = [i for i in range(len(sizes)) if any(row[i] for row in lists)]
        texts = [" / ".join(text(row[i], workload) if row[i] else "-" for i in shown)
                 if any(row) else "" for row in lists]
        if any(texts):
            lines.append(f"| {workload}, {units[workload]} | "
                         + " | ".join(texts) + " |")
    return sizes, "\n".join(lines) + "\n" if lines[2:] else ""


def print_ratios(cells):
    print("\nHow many times as fast as each rival\n")
    for workload in OPERATIONS + ITERATIONS:
        for n in SIZES[1::2]:
            found = {rival: statistics.median(cells[rival, workload, n])
                     for rival in PLOTTED if (rival, workload, n) in cells}
            if OURS in found and len(found) > 1:
                print(f"{workload}, {n:,} timers: " + ", ".join(
                    f"{rival} {median / found[OURS]:.2g}"
                    for rival, median in found.items() if rival != OURS))


def print_spread(cells):
    spreads = sorted(
        (max(values) - min(values)) / 2 / statistics.median(values)
        for values in cells.values() if len(values) > 1 and min(values) > 0)
    if spreads:
        print(f"\nHalf of the cells vary by up to ±{spreads[len(spreads) // 2]:.0%}"
              f", nine of ten by up to ±{spreads[len(spreads) * 9 // 10]:.0%}.")


def print_faster_rivals(cells):
    """A line for each workload, with the rivals that are faster."""
    print("\nWhere a rival is faster\n")
    for (rival, workload, n), ours in cells.items():
        if rival != OURS or workload.startswith(("memory", "message")):
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


def write_plot_data(cells, directory, plots):
    """One block per rival, as gnuplot's index and columnheader want it."""
    for name in PLOTS:
        file_name = name.replace(" ", "-")
        (directory / (file_name + ".svg")).unlink(missing_ok=True)
        blocks = []
        for rival, colour in PLOTTED.items():
            points = sorted((key[2], statistics.median(values))
                            for key, values in cells.items()
                            if key[:2] == (rival, name))
            if points[1:]:
                lines = "\n".join(f"{n} {value} {colour}" for n, value in points)
                blocks.append(f'"{rival}"\n{lines}\n')
        if blocks:
            path = plots / (file_name + ".dat")
            path.write_text("\n\n".join(blocks), encoding="utf-8")


def main():
    directory, plots, *documents = map(pathlib.Path, sys.argv[1:])
    units, cells = read(directory / "results.csv")
    tables = {name: table(units, cells, name) for name in TABLES}
    for name, (sizes, lines) in tables.items():
        if lines:
            print(f"\n{name}, with " + " / ".join(f"{n:,}" for n in sizes)
                  + f" timers\n\n{lines}", end="")
    print_ratios(cells)
    print_spread(cells)
    print_faster_rivals(cells)
    write_plot_data(cells, directory, plots)
    for document in documents:
        document.write_text(re.sub(
            r"(<!-- bench/run: (\w+) -->\n)(?:\|.*\n)*",
            lambda match: match[1] + tables[match[2]][1],
            document.read_text(encoding="utf-8")), encoding="utf-8")


main()
