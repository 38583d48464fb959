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

function row(name, what, format, uv, wheel) {
  printf "%-8s%-14s" format format "\n", name, what, uv, wheel
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
    row(name, "calls", "%12d", calls["uv", name], calls["wheel", name])
    row("", "ns per call", "%12.1f", each["uv", name], each["wheel", name])
  }
  row("all", "ms", "%12.3f", all["uv"], all["wheel"])
  row("cpu", "ms", "%12.1f", cpu["uv"], cpu["wheel"])
  row("", "% of that", "%12.2f", share["uv"], share["wheel"])
  row("wall", "ms", "%12.1f", wall["uv"], wall["wheel"])
  row("late", "mean ms", "%12.3f", late["uv"], late["wheel"])
  row("", "p99 ms", "%12.3f", late_p99["uv"], late_p99["wheel"])
  row("timers", "at most", "%12d", timers["uv"], timers["wheel"])
  row("bytes", "of timers", "%12d", bytes["uv"], bytes["wheel"])
  row("", "of slots", "%12d", 0, slots["wheel"])
}
