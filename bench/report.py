# SPDX-License-Identifier: MIT

"""Makes tables and data for the plots of results.csv, which a benchmark wrote.

usage: report.py DIRECTORY PLOTS [DOCUMENT...]

Prints the tables of the results.csv in DIRECTORY, as Markdown. Writes NAME.dat
for plot.gp into PLOTS, for some workloads. In each DOCUMENT replaces what
follows <!-- bench/run: NAME -->, up to the next empty line (a table, or those
of instructions.txt and machine.txt), and the rows that tell a loop's capacity.

A cell has the median and, in most tables, the least and the most of all
repetitions. If there are three or more, it is bold if no other cell of the row
is less, or if the row does not decide that: its least is not more than the most
of the least median, or it shows the same number."""

import csv
import math
import pathlib
import re
import statistics
import sys
import textwrap

OURS = "uvwheel"
# Those that a program would choose from, with their colours in plots.
RIVALS = {OURS: "0xe8590c", "byte + memchr": "0x3fb5a8", "LRU list": "0x8a5a44",
          "50-line wheel": "0xb08a1e", "lazy uv_timer_t": "0x8e5bd0",
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
SUMMARY = {ADDED: "added to a message of {} µs over TCP, µs",
           "refresh random": "refresh, ns", "steady server": "steady server, ns",
           "start shuffled": "start, ns", "stop shuffled": "stop, ns",
           "expire": "expire, ns", "longest iteration": "longest iteration, ms",
           "memory per timer": "bytes"}
PLOTS = ["refresh random", "steady server", "expire"]
SIZES = [1000, 10000, 100000, 1000000]
# Of each table: its workloads, its columns, its numbers of timers.
TABLES = {"operations": (OPERATIONS, RIVALS, SIZES),
          "iterations": (ITERATIONS, RIVALS, SIZES[1::2]),
          "calls": (CALLS, RIVALS, SIZES[1::2] + [10000000]),
          "others": (OPERATIONS[:1] + ["expect shuffled"] + OPERATIONS[1:]
                     + ITERATIONS[2:4], OTHERS, SIZES[1::2])}
CONNECTION_S = 30  # between two messages of a connection of scaling.md


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


def signed(value):
    return f"{value:+.2f}"


def medians(lists, form=number):
    """A text for each list of values, bold as said above; "" for None."""
    known = [values for values in lists if values and values[2:]]
    first = min(known, key=statistics.median) if known[1:] else [-math.inf]
    shown = form(statistics.median(first))
    for values in lists:
        text = form(statistics.median(values)) if values else ""
        ties = values and (min(values) <= max(first) or text == shown)
        yield f"**{text}**" if ties else text


def with_spread(lists, form=number, to="–"):
    for values, text in zip(lists, medians(lists, form)):
        ends = {form(end(values)): None for end in (min, max) if values}
        yield f"{text} ({to.join(ends)})" if len(ends) == 2 else text


def lines_of(heads, rows, left=1):
    """A table, of which some columns are aligned to the left."""
    marks = "---|" * left + "---:|" * (len(heads) - left)
    head, *lines = (f"| {' | '.join(row)} |\n" for row in [heads, *rows])
    return "".join([head, f"|{marks}\n", *lines]) if rows else ""


def sizes_of(cells, sizes):
    """These, if all of them were measured, else those that were."""
    measured = {key[2] for key in cells}
    return sizes if measured.issuperset(sizes) else sorted(measured)


def present(cells, rivals, workloads, sizes):
    return [rival for rival in rivals if any(
        (rival, workload, n) in cells for workload in workloads for n in sizes)]


def table(units, cells, name):
    """A row for each workload and number of timers."""
    workloads, rivals, sizes = TABLES[name]
    sizes = sizes_of(cells, sizes)
    rivals = present(cells, rivals, workloads, sizes)
    if rivals == [OURS] and name == "others":
        return ""
    rows = []
    for workload in workloads:
        label = f"{workload}, {units.get(workload)}"
        for n in sizes:
            lists = [cells.get((rival, workload, n)) for rival in rivals]
            if any(lists):
                rows.append([label, f"{n:,}", *with_spread(lists)])
                label = ""
    return lines_of(["", "timers", *rivals], rows, 2)


def plain_messages(cells, n):
    """What all rivals' messages took without timers."""
    return [value for (_, workload, size), values in cells.items()
            if (workload, size) == (MESSAGE, n) for value in values]


def summary(cells):
    """The README's: a row for each workload, without the spread."""
    sizes = sizes_of(cells, SIZES[1::2])
    rivals = present(cells, RIVALS, SUMMARY, sizes)
    plain = plain_messages(cells, 10000)
    message = number(statistics.median(plain)) if plain else ""
    rows = []
    for workload, label in SUMMARY.items():
        form = signed if workload == ADDED else number
        columns = [list(medians([cells.get((rival, workload, n))
                                 for rival in rivals], form)) for n in sizes]
        columns = [column for column in columns if any(column)]
        if columns:
            rows.append([label.format(message)] + [
                " / ".join(text or "-" for text in (
                    texts[:1] if len({*texts}) == 1 else texts))
                for texts in zip(*columns)])
    heads = [" / ".join(f"{n:,}" for n in sizes) + "; **first, or a tie**",
             *rivals]
    return lines_of(heads, rows)


def message_table(cells):
    """What a timer adds to a message."""
    rivals = present(cells, RIVALS, [ADDED], CONNECTIONS)
    columns = [[*with_spread([plain_messages(cells, n)]),
                *with_spread([cells.get((rival, ADDED, n)) for rival in rivals],
                             signed, " to ")] for n in CONNECTIONS]
    return lines_of(["µs per message", *CONNECTIONS.values()],
                    [*zip(["none", *rivals], *columns)] if rivals else [])


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


def machine(directory, cells):
    path = directory / "machine.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    times = max(map(len, cells.values()), default=0)
    text = f"{'; '.join(lines)}; repetitions: {times}."
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


def scaling(cells):
    """Of scaling.md: what many connections take."""
    steady = cells.get((OURS, "steady server", SIZES[-1]))
    message = plain_messages(cells, 10000)
    if not steady or not message:
        return ""
    cores = [(millions, *(millions / CONNECTION_S * statistics.median(values)
                          for values in (message, [ns / 1e3 for ns in steady])))
             for millions in (1, 100)]
    return lines_of(
        [f"a message every {CONNECTION_S} s",
         *(f"{one[0]} million connections" for one in cores)],
        [["cores for the messages", *(number(one[1]) for one in cores)],
         ["cores for the refreshes", *(f"{one[2]:.1g}" for one in cores)],
         ["loops, each half busy",
          *(f"{math.ceil(2 * one[1]):,}" for one in cores)]])


def write_plot_data(cells, plots):
    """One block per rival, as gnuplot's index and columnheader want it."""
    for name in PLOTS:
        blocks = []
        for rival, colour in RIVALS.items():
            points = sorted((key[2], statistics.median(values), min(values),
                             max(values)) for key, values in cells.items()
                            if key[:2] == (rival, name))
            if points[1:]:
                blocks.append(f'"{rival}"\n' + "".join(
                    f"{n} {value} {least} {most} {colour}\n"
                    for n, value, least, most in points))
        if blocks:
            path = plots / (name.replace(" ", "-") + ".dat")
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
    tables.update({"summary": summary(cells), "messages": message_table(cells),
                   "scaling": scaling(cells), "instructions": "", "turns": "",
                   "machine": machine(directory, cells),
                   **instruction_tables(directory)})
    for name, lines in tables.items():
        if lines:
            print(f"\n{name}\n\n{lines}", end="")
    write_plot_data(cells, plots)
    for document in documents:
        fill(document, tables, [*capacity(cells)])


main()
