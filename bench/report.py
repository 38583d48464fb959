# SPDX-License-Identifier: MIT

"""Makes tables and data for the plots of results.csv, which a benchmark wrote.

usage: report.py DIRECTORY PLOTS

Prints the tables of the results.csv in DIRECTORY. Writes NAME.dat for plot.gp
into PLOTS, for each operation, and removes the plots of an earlier run from
DIRECTORY."""

import csv
import pathlib
import statistics
import sys
import textwrap

OPERATIONS = ["start in memory order", "start shuffled", "refresh random",
              "refresh hot", "restart random", "again random", "stop shuffled",
              "stop + start", "start mixed", "stop + start mixed", "expire"]
SERVERS = ["steady server", "request deadline", "churn from 1 ms to 1 h",
           "fire 10 per ms"]
ITERATIONS = ["nothing due", "one due", "one due beside far ones",
              "fire within a week"]
WIDTH = 100  # of what is printed
OURS = "uvwheel"
FINE = "uvwheel 1 ms x 16384"
LIBUV = "libuv uv_timer_t"
FLOOR = "floor"

# A rival has the same colour in every plot.
COLOURS = {FLOOR: "0x808890", "floor by call": "0xb0a898", OURS: "0xe8590c",
           "uvwheel FIFO": "0xf0a070", FINE: "0xa33c00", LIBUV: "0x2b7fd4",
           "sweep of an array": "0x3fb5a8", "sweep of a table": "0x5560b0",
           "sweep of a list": "0x8a5a44",
           "libev ev_timer": "0x2f9e61", "libevent evtimer": "0x9a5fd0",
           "libevent common timeout": "0xd08be0",
           "Boost.Asio steady_timer": "0xb08a1e",
           "h2o timeouts": "0x6f8f2f"}

# How many times faster than uv_timer_t, for these rivals and numbers of timers.
COLUMNS = [(OURS, 10), (OURS, 1000), (OURS, 10000), (OURS, 100000),
           (OURS, 1000000), (FINE, 100000)]
RATIOS = ["start shuffled", "start mixed", "stop shuffled", "stop + start",
          "stop + start mixed", "expire", "refresh random", "again random",
          "restart random", "refresh hot", "steady server", "fire 10 per ms"]


class Cell:
    """One rival, one workload, one number of timers."""

    def __init__(self):
        self.values = []
        self.unit = ""

    @property
    def median(self):
        return statistics.median(self.values)

    def __str__(self):
        median = self.median
        text = f"{median:.0f}" if median >= 99.5 else f"{median:.3g}"
        if len(self.values) > 1 and median > 0:
            half = (max(self.values) - min(self.values)) / 2
            text += f" ±{100 * half / median:.0f}%"
        return text


def read(path):
    cells = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = row["rival"], row["workload"], int(row["n"])
            cell = cells.setdefault(key, Cell())
            cell.values.append(float(row["value"]))
            cell.unit = row["unit"]
    return cells


def names(cells, position):
    """What stands at a position of the keys, in order of first sight."""
    return list(dict.fromkeys(key[position] for key in cells))


def print_columns(rows, widths, shown):
    print()
    for row in rows:
        print(row[0].ljust(widths[0]) +
              "".join("  " + row[i].rjust(widths[i]) for i in shown))


def print_table(title, head, rows):
    """As many parts as it takes, each with the first column."""
    rows = [head] + rows
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    print(f"\n{title}")
    shown, width = [], widths[0]
    for i in range(1, len(head)):
        if width + 2 + widths[i] > WIDTH:
            print_columns(rows, widths, shown)
            shown, width = [], widths[0]
        shown.append(i)
        width += 2 + widths[i]
    print_columns(rows, widths, shown)


def print_operations(cells):
    for n in sorted(names(cells, 2)):
        for group in OPERATIONS, SERVERS, ITERATIONS:
            columns = [name for name in group
                       if any(key[1:] == (name, n) for key in cells)]
            rows = [[rival] + [str(cells.get((rival, name, n), ""))
                              for name in columns]
                    for rival in names(cells, 0)
                    if any((rival, name, n) in cells for name in columns)]
            if rows:
                print_table(f"ns of CPU time per operation, {n:,} timers",
                            [""] + columns, rows)


def print_others(cells):
    others = [name for name in names(cells, 1)
              if name not in OPERATIONS + SERVERS + ITERATIONS]
    for name in others:
        sizes = sorted({key[2] for key in cells if key[1] == name})
        rows = [[rival] + [str(cells.get((rival, name, n), "")) for n in sizes]
                for rival in names(cells, 0)
                if any((rival, name, n) in cells for n in sizes)]
        unit = next(cell.unit for key, cell in cells.items() if key[1] == name)
        print_table(f"{name}, {unit}", ["timers"] + [f"{n:,}" for n in sizes],
                    rows)


def ratio(cells, rival, name, n):
    """How many times faster than uv_timer_t, or None."""
    ours = cells.get((rival, name, n))
    libuv = cells.get((LIBUV, name, n))
    return libuv.median / ours.median if ours and libuv else None


def print_ratios(cells):
    rows = []
    for name in RATIOS:
        times = [ratio(cells, rival, name, n) for rival, n in COLUMNS]
        if any(times):
            rows.append([name] + [f"{x:.1f}x" if x else "" for x in times])
    if rows:
        print_table("Times faster than uv_timer_t",
                    [""] + [f"{n:,}" + (" on 1 ms" if rival == FINE else "")
                            for rival, n in COLUMNS], rows)


def print_faster_rivals(cells):
    """A line for each row, with the rivals that are faster, fastest first."""
    print("\nWhere a rival is faster\n")
    for name in OPERATIONS + SERVERS + ITERATIONS:
        for n in sorted(names(cells, 2)):
            ours = cells.get((OURS, name, n))
            faster = sorted((cell.median, rival, str(cell))
                            for (rival, *key), cell in cells.items()
                            if ours and key == [name, n]
                            and cell.median <= ours.median
                            and not rival.startswith((OURS, FLOOR)))
            if faster:
                line = f"{name}, {n:,} timers, uvwheel {ours}: " + ", ".join(
                    f"{rival} {text}" for _, rival, text in faster)
                print(textwrap.fill(line, WIDTH, subsequent_indent="  "))


def write_plot_data(cells, directory, plots):
    """One block per rival, as gnuplot's index and columnheader want it."""
    for name in OPERATIONS + SERVERS:
        file_name = name.replace(" + ", "-").replace(" ", "-")
        (directory / (file_name + ".svg")).unlink(missing_ok=True)
        blocks = []
        for rival, colour in COLOURS.items():
            points = sorted((key[2], cell.median)
                            for key, cell in cells.items()
                            if key[:2] == (rival, name))
            if points:
                lines = "\n".join(f"{n} {value} {colour}" for n, value in points)
                blocks.append(f'"{rival}"\n{lines}\n')
        if blocks:
            path = plots / (file_name + ".dat")
            path.write_text("\n\n".join(blocks), encoding="utf-8")


def main():
    directory, plots = map(pathlib.Path, sys.argv[1:])
    cells = read(directory / "results.csv")
    print_operations(cells)
    print_others(cells)
    print_ratios(cells)
    print_faster_rivals(cells)
    write_plot_data(cells, directory, plots)


main()
