# SPDX-License-Identifier: MIT

"""Turns results.csv of a benchmark run into tables and data for the plots.

usage: report.py DIRECTORY PLOTS

Prints the tables. Writes summary.csv (medians and spread) into the directory,
where results.csv is, and for each operation NAME.dat for plot.gp into PLOTS.
Plots of an earlier run are removed."""

import csv
import pathlib
import statistics
import sys

OPERATIONS = ["start in memory order", "start shuffled", "start with a repeat",
              "refresh random", "refresh hot", "restart random",
              "again random", "stop shuffled", "stop + start", "expire",
              "steady server", "steady server by again", "request deadline",
              "churn from 1 ms to 1 h", "fire 10 per ms"]
OURS = "uvwheel"
LIBUV = "libuv uv_timer_t"
FLOOR = "floor"
CALLED = "floor by call"
TARGET_N = 1000000

# A peer has the same colour in every plot.
COLOURS = {FLOOR: "0x808890", CALLED: "0xb0a898", OURS: "0xe8590c",
           "uvwheel FIFO": "0xf0a070", LIBUV: "0x2b7fd4",
           "libev ev_timer": "0x2f9e61", "libevent evtimer": "0x9a5fd0",
           "libevent common timeout": "0xd08be0",
           "Boost.Asio steady_timer": "0xb08a1e",
           "Netty HashedWheelTimer": "0xd6457a"}

# Operation, how many times faster than uv_timer_t, how many times the floor,
# how many ns at most.
TARGETS = [("refresh random", 25, 1.3, None),
           ("refresh hot", 20, None, 3.5),
           ("start shuffled", 8, None, None),
           ("stop shuffled", 25, None, None),
           ("expire", 60, None, None),
           ("steady server", 18, 1.7, None)]


class Cell:
    """One peer, one workload, one number of timers."""

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
            key = row["peer"], row["workload"], int(row["n"])
            cell = cells.setdefault(key, Cell())
            cell.values.append(float(row["value"]))
            cell.unit = row["unit"]
    return cells


def names(cells, position):
    """What stands at a position of the keys, in order of first sight."""
    return list(dict.fromkeys(key[position] for key in cells))


def print_table(title, head, rows):
    widths = [max(len(row[i]) for row in [head] + rows)
              for i in range(len(head))]
    print(f"\n{title}\n")
    for row in [head] + rows:
        print("  ".join(text.ljust(width) if i == 0 else text.rjust(width)
                        for i, (text, width) in enumerate(zip(row, widths))))


def print_operations(cells):
    for n in sorted(names(cells, 2)):
        columns = [name for name in OPERATIONS
                   if any(key[1:] == (name, n) for key in cells)]
        rows = [[peer] + [str(cells.get((peer, name, n), "")) for name in columns]
                for peer in names(cells, 0)
                if any((peer, name, n) in cells for name in columns)]
        if rows:
            print_table(f"ns of CPU time per operation, {n:,} timers",
                        [""] + columns, rows)


def print_others(cells):
    others = [name for name in names(cells, 1) if name not in OPERATIONS]
    for name in others:
        sizes = sorted({key[2] for key in cells if key[1] == name})
        rows = [[peer] + [str(cells.get((peer, name, n), "")) for n in sizes]
                for peer in names(cells, 0)
                if any((peer, name, n) in cells for n in sizes)]
        unit = next(cell.unit for key, cell in cells.items() if key[1] == name)
        print_table(f"{name}, {unit}", ["timers"] + [f"{n:,}" for n in sizes],
                    rows)


def verdict(reached):
    return "yes" if reached else "NO"


def print_targets(cells):
    rows = []
    for name, times, floor_times, most in TARGETS:
        ours, libuv, floor, called = (
            cells.get((peer, name, TARGET_N))
            for peer in (OURS, LIBUV, FLOOR, CALLED))
        if not (ours and libuv):
            continue
        ratio = libuv.median / ours.median
        row = [name, f"{ours.median:.3g}", f"{libuv.median:.3g}",
               f"{ratio:.1f}x", f"{times}x", verdict(ratio >= times),
               *(f"{ours.median / cell.median:.2f}x" if cell else ""
                 for cell in (floor, called))]
        if floor_times and called:
            reached = ours.median <= floor_times * called.median
            row += [f"{floor_times}x", verdict(reached)]
        elif most:
            row += [f"{most} ns", verdict(ours.median <= most)]
        else:
            row += ["", ""]
        rows.append(row)
    if rows:
        print_table(f"Targets, {TARGET_N:,} timers, ns",
                    ["", "uvwheel", "uv_timer_t", "faster", "target",
                     "reached", "/floor", "/floor by call", "target",
                     "reached"], rows)


def print_limits(cells):
    """The targets that are not ratios to uv_timer_t."""
    lines = []
    idle = cells.get((OURS, "idle for 10 s", TARGET_N))
    if idle:
        lines.append(f"idle for 10 s: {idle.median:.3g} ms of CPU time")
    turn = cells.get((OURS, "longest turn", TARGET_N))
    if turn:
        lines.append(f"longest turn: {turn.median:.3g} ms, at most 2 ms: "
                     + verdict(turn.median <= 2))
    for name in OPERATIONS:
        big = cells.get((OURS, name, 10 * TARGET_N))
        base = cells.get((OURS, name, TARGET_N))
        if big and base:
            ratio = big.median / base.median
            lines.append(f"{name}: {ratio:.2f}x at ten times as many timers, "
                         "at most 2x: " + verdict(ratio <= 2))
    for (peer, name, n), cell in cells.items():
        ours = cells.get((OURS, name, n))
        if (name in OPERATIONS and ours and cell.median <= ours.median
                and not peer.startswith((OURS, FLOOR))):
            lines.append(f"{name}, {n:,} timers: {peer} needs {cell}, "
                         f"uvwheel {ours}")
    if lines:
        print("\nOther targets, and where a peer is faster\n")
        print("\n".join(lines))


def write_summary(cells, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["peer", "workload", "n", "median", "min", "max",
                         "repetitions", "unit"])
        for (peer, name, n), cell in cells.items():
            writer.writerow([peer, name, n, f"{cell.median:.6g}",
                             f"{min(cell.values):.6g}",
                             f"{max(cell.values):.6g}", len(cell.values),
                             cell.unit])


def write_plot_data(cells, directory, plots):
    """One block per peer, as gnuplot's index and columnheader want it."""
    for name in OPERATIONS:
        file_name = name.replace(" ", "-")
        (directory / (file_name + ".svg")).unlink(missing_ok=True)
        blocks = []
        for peer, colour in COLOURS.items():
            points = sorted((key[2], cell.median)
                            for key, cell in cells.items()
                            if key[:2] == (peer, name))
            if points:
                lines = "\n".join(f"{n} {value} {colour}" for n, value in points)
                blocks.append(f'"{peer}"\n{lines}\n')
        if blocks:
            path = plots / (file_name + ".dat")
            path.write_text("\n\n".join(blocks), encoding="utf-8")


def main():
    directory, plots = map(pathlib.Path, sys.argv[1:])
    cells = read(directory / "results.csv")
    print_operations(cells)
    print_others(cells)
    print_targets(cells)
    print_limits(cells)
    write_summary(cells, directory / "summary.csv")
    write_plot_data(cells, directory, plots)


main()
