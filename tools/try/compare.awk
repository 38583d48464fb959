# SPDX-License-Identifier: MIT

# Compares two reports of tools/uvwheel-try, one with uv and one with wheel. A
# file may hold several: the last one counts.

function fail(reason) {
  print "uvwheel-try: " reason | "cat >&2"
  failed = 1
  exit 1
}

/^uvwheel-try: / {
  in_report = match($0, /timers by (uv|wheel) /)
  kind = substr($0, RSTART + 10, index(substr($0, RSTART + 10), " ") - 1)
  if (in_report)
    kind_of[FILENAME] = kind
}
!in_report { next }
$1 ~ /^(init|start|again|stop|fire|close)$/ && NF == 5 {
  calls[kind, $1] = $2
  each[kind, $1] = $4
}
$1 == "all" { all[kind] = $2 }
$1 == "cpu" { cpu[kind] = $2; wall[kind] = $5; share[kind] = $(NF - 3) }
$1 == "late" { late[kind] = $2; late_p99[kind] = $6 }
$1 == "timers" { timers[kind] = $2 }
$1 == "bytes" {
  bytes[kind] = $2
  slots[kind] = /for slots/ ? $8 : 0
}

# The meaning of the figures for somebody who waits for the program.
function judge(    uv_ms, wheel_ms) {
  if (late["wheel"] - late["uv"] >= 0.2)
    printf "\nLater: with the wheel a timer fires %.1f ms later on average " \
      "(%.1f -> %.1f ms),\nand so does every reply that waits for one.\n",
      late["wheel"] - late["uv"], late["uv"], late["wheel"]
  if (late_p99["wheel"] - late_p99["uv"] >= 2)
    printf "\nLater: 99 of 100 timers were late by at most %.1f ms with uv,\n" \
      "by at most %.1f ms with the wheel.\n", late_p99["uv"], late_p99["wheel"]
  if (wall["wheel"] > 1.05 * wall["uv"])
    printf "\nLonger: the run took %.1f s instead of %.1f s. If it had the " \
      "same work to do,\nless cpu time is no gain.\n", wall["wheel"] / 1000,
      wall["uv"] / 1000
  uv_ms = calls["uv", "fire"] * each["uv", "fire"] / 1e6
  wheel_ms = calls["wheel", "fire"] * each["wheel", "fire"] / 1e6
  if (all["wheel"] > all["uv"] && wheel_ms > 1.5 * uv_ms &&
      wheel_ms - uv_ms > 0.1)
    printf "\nFew timers: firing took %.2f ms in all instead of %.2f ms. A " \
      "wheel reads the\nclock after each poll and wakes at each tick in " \
      "which something is due, with few\ntimers as with many. Try --tick " \
      "100 if the timers may be late by that.\n", wheel_ms, uv_ms
}

function row(name, what, format, values) {
  printf "%-8s%-14s" format format "\n", name, what, values["uv"],
    values["wheel"]
}

END {
  if (failed)
    exit 1
  for (i = 1; i < ARGC; i++)
    if (!(ARGV[i] in kind_of))
      fail(ARGV[i] " holds no report of timers")
  if (kind_of[ARGV[1]] == kind_of[ARGV[2]])
    fail("both reports are with " kind_of[ARGV[1]] ": give one with uv and " \
      "one with wheel")
  printf "%-22s%12s%12s\n", "", "uv", "wheel"
  count = split("init start again stop fire close", names)
  for (i = 1; i <= count; i++) {
    name = names[i]
    if (calls["uv", name] + calls["wheel", name] == 0)
      continue
    printf "%-8s%-14s%12d%12d\n", name, "calls", calls["uv", name],
      calls["wheel", name]
    printf "%-8s%-14s%12.1f%12.1f\n", "", "ns per call", each["uv", name],
      each["wheel", name]
  }
  row("all", "ms", "%12.3f", all)
  row("cpu", "ms", "%12.1f", cpu)
  row("", "% of that", "%12.2f", share)
  row("wall", "ms", "%12.1f", wall)
  row("late", "mean ms", "%12.3f", late)
  row("", "p99 ms", "%12.3f", late_p99)
  row("timers", "at most", "%12d", timers)
  row("bytes", "of timers", "%12d", bytes)
  printf "%-8s%-14s%12d%12d\n", "", "of slots", 0, slots["wheel"]
  judge()
}
