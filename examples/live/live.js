// SPDX-License-Identifier: MIT

"use strict";

const by = id => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const LEVELS = 8, TABLE_ROWS = 16, SHORTEST_LATENESS = 10;
const RING = {inner: 72, outer: 100};
const MIDDLE = (RING.inner + RING.outer) / 2;
const HISTORY_MS = 60000, RATE_MS = 1000;

let source = null;   // of events, or null while paused
let figures = [];    // the table of live-figures.c
let wheel = 0;       // the one that is looked at
let frame = null;    // the last one drawn
let history = [];    // of frames without their slots, for HISTORY_MS
let chosen = null;   // the cell that is looked into
let scale = 1;       // the number of timers that is shaded darkest
let firstRound = 0;  // keeps angles small

const number = new Intl.NumberFormat("en");
const format = n => number.format(n);
const seconds = ms => ms < 9950 ? (ms / 1000).toFixed(1) + " s"
  : format(Math.round(ms / 1000)) + " s";
const counted = (n, word) => format(n) + " " + word + (n === 1 ? "" : "s");
const percent = (part, all) => (part * 100 / all).toFixed(1) + " %";

const time = ms => ms < 1000 ? `${format(ms)} ms` : seconds(ms);

const SVG = "http://www.w3.org/2000/svg";

function element(name, parent, attributes = {}) {
  const isSvg = parent instanceof SVGElement || name === "svg";
  const made = isSvg ? document.createElementNS(SVG, name)
    : document.createElement(name);
  for (const key in attributes)
    made.setAttribute(key, attributes[key]);
  return parent.appendChild(made);
}

function write(node, text) {
  if (node.textContent !== text)
    node.textContent = text;
}

// ---- The ring ------------------------------------------------------------

function arc(cell, inner, outer) {
  const turn = 2 * Math.PI / frame.cells.length;
  const gap = frame.cells.length > 128 ? 0 : turn / 16;
  const at = (radius, angle) =>
    (radius * Math.sin(angle)).toFixed(2) + " " +
    (-radius * Math.cos(angle)).toFixed(2);
  const from = cell * turn + gap, to = (cell + 1) * turn - gap;
  const large = to - from > Math.PI ? 1 : 0;
  return `M${at(outer, from)}A${outer} ${outer} 0 ${large} 1 ${at(outer, to)}` +
    `L${at(inner, to)}A${inner} ${inner} 0 ${large} 0 ${at(inner, from)}Z`;
}

const slotsPerCell = () => frame.slots / frame.cells.length;

function nameOf(cell) {
  const first = cell * slotsPerCell(), last = first + slotsPerCell() - 1;
  return first === last ? `slot ${first}` : `slots ${first} to ${last}`;
}

// How long until the hand comes to the cell.
function comesIn(cell) {
  const position = frame.now_ms / frame.tick_ms;
  const begin = cell * slotsPerCell();
  const round = frame.slots;
  return ((begin - position) % round + round) % round * frame.tick_ms;
}

function buildRing() {
  by("rim").setAttribute("d", `M0-${MIDDLE}a${MIDDLE} ${MIDDLE} 0 1 1-.01 0Z`);
  by("rim").setAttribute("stroke-width", RING.outer - RING.inner);
  by("cells").replaceChildren();
  by("marks").replaceChildren();
  frame.cells.forEach((_, cell) => element("path", by("cells"),
    {d: arc(cell, RING.inner, RING.outer), class: "l0"}));
  for (let quarter = 0; quarter < 4; quarter++) {
    const angle = quarter * Math.PI / 2;
    element("text", by("marks"), {
      x: 62 * Math.sin(angle), y: 2.2 - 62 * Math.cos(angle)
    }).textContent = frame.slots * quarter / 4;
  }
  const round = frame.slots * frame.tick_ms;
  firstRound = Math.floor(frame.now_ms / round);
  const hasAhead = frame.timeout_ms < round;
  by("ahead").style.display = hasAhead ? "" : "none";
  by("ahead-legend").style.display = hasAhead ? "" : "none";
  by("ring").setAttribute("aria-valuemax", frame.cells.length - 1);
  write(by("setup"), `${counted(frame.slots, "slot")} of ` +
    `${format(frame.tick_ms)} ms, ${seconds(round)} a round; ` +
    `connections time out after ${seconds(frame.timeout_ms)}`);
}

// 1, 2, 5, 10, 20 ...: the scale does not flicker with the fullest slot.
function roundUp(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  return power * [1, 2, 5, 10].find(step => step * power >= n);
}

// By the logarithm: a slot may hold a thousand times what another one does.
function levelOf(count) {
  if (count === 0)
    return 0;
  return scale === 1 ? LEVELS : Math.min(LEVELS,
    1 + Math.round(Math.log(count) / Math.log(scale) * (LEVELS - 1)));
}

function drawRing(isFresh) {
  const most = roundUp(Math.max(...frame.cells));
  if (most > scale || most < scale / 4)
    scale = most;
  const cells = by("cells").children;
  frame.cells.forEach((count, cell) => {
    const level = "l" + levelOf(count);
    if (cells[cell].getAttribute("class") !== level)
      cells[cell].setAttribute("class", level);
  });
  const round = frame.slots * frame.tick_ms;
  const turns = frame.now_ms / round - firstRound;
  const ahead = frame.timeout_ms / round;
  for (const [id, part] of [["hand", 0], ["ahead", ahead]]) {
    by(id).classList.toggle("moving", !isFresh && !calm.matches);
    by(id).style.transform = `rotate(${360 * (turns + part)}deg)`;
  }
  write(by("most"), format(scale));
}

function drawMiddle() {
  by("chosen").setAttribute("d",
    chosen === null ? "" : arc(chosen, RING.inner - 1.5, RING.outer + 1.5));
  write(by("above"), chosen === null ? "" : nameOf(chosen));
  write(by("middle"),
    format(chosen === null ? frame.timers : frame.cells[chosen]));
  write(by("below"), chosen === null ? "timers active"
    : `hand in ${seconds(comesIn(chosen))}`);
}

function drawSummary() {
  const used = frame.cells.filter(count => count > 0).length;
  const most = Math.max(...frame.cells);
  const fullest = frame.cells.indexOf(most);
  const unit = slotsPerCell() === 1 ? "slot" : "group";
  let text = used === 0 ? "No slot holds a timer."
    : `${format(used)} of ${counted(frame.cells.length, unit)} in use, ` +
      `at most ${counted(most, "timer")} in one (${nameOf(fullest)}).`;
  if (slotsPerCell() > 1)
    text += ` A group is ${format(slotsPerCell())} slots.`;
  if (frame.age_ms >= 1000)
    text += ` Counted in the last ${seconds(frame.age_ms)}.`;
  if (frame.backlog > 0)
    text += ` The hand is ${format(frame.backlog)} ms behind.`;
  write(by("summary"), text);
}

function drawRounds() {
  const {walked, later, most_rounds: most} = frame;
  let text = "In which rounds so many timers are due is not counted.";
  if (walked > 0)
    text = `${percent(walked - later, walked)} are due in this round, ` +
      `${percent(later, walked)} in later ones` +
      (most > 0 ? `, at most ${counted(most, "round")} ahead.` : ".");
  write(by("rounds"), text);
}

// The cells from the hand on, in equal parts.
function drawSlotTable() {
  if (!by("slots").open)
    return;
  const body = by("slots").querySelector("tbody");
  const cells = frame.cells.length, rows = Math.min(TABLE_ROWS, cells);
  const perRow = cells / rows, rowMs = perRow * slotsPerCell() * frame.tick_ms;
  const hand = Math.floor(frame.now_ms / frame.tick_ms / slotsPerCell()) + 1;
  while (body.children.length < rows) {
    const row = element("tr", body);
    element("th", row, {scope: "row"});
    element("td", row);
  }
  for (let i = 0; i < rows; i++) {
    let sum = 0;
    for (let k = 0; k < perRow; k++)
      sum += frame.cells[(hand + i * perRow + k) % cells];
    const [title, value] = body.children[i].children;
    write(title, `${seconds(i * rowMs)} to ${seconds((i + 1) * rowMs)}`);
    write(value, format(sum));
  }
}

// ---- The figures ---------------------------------------------------------

// As text: a count, or a time.
function show(figure, number) {
  if (figure.unit === 1)
    return format(number);
  return figure.unit === 1000 ? time(number)
    : (number / 1000).toFixed(2) + " ms";
}

// A gauge is bad by what it is, a counter by what it has grown in a minute.
function isBad(figure, k = wheel) {
  const now = frame.all[figure.name][k];
  const grown = now - history[0].all[figure.name][k];
  return figure.worry !== "" &&
    (figure.counts ? grown : now) > figure.limit;
}

const placed = place => figures.filter(figure => figure.place === place);

function buildTile(figure) {
  const box = element("div", by("tiles"), {class: "tile"});
  element("span", box, {class: "name"}).textContent = figure.title;
  const value = element("span", box, {class: "value"});
  element("span", value, {id: figure.name});
  if (figure.counts)
    element("abbr", value, {class: "muted", title: "per second"})
      .textContent = " /s";
  element("span", box, {class: "note"});
  const svg = element("svg", box, {viewBox: "0 0 100 100",
    preserveAspectRatio: "none", "aria-hidden": "true"});
  element("path", svg);
  return box;
}

function buildHealth(figure) {
  const box = element("div", by("health").querySelector("dl"));
  element("dt", box).textContent = figure.title;
  element("dd", box, {class: "value", id: figure.name});
  element("dd", box, {class: "note"});
  return box;
}

function buildFigures() {
  by("tiles").replaceChildren();
  by("health").querySelector("dl").replaceChildren();
  for (const [place, build] of
    [["tile", buildTile], ["health", buildHealth]])
    for (const figure of placed(place)) {
      figure.box = build(figure);
      figure.box.title = `${figure.help} ${figure.worry}`.trim();
    }
}

// What it is, or, if it is bad, what that means.
function drawNote(figure) {
  const bad = isBad(figure);
  figure.box.classList.toggle("bad", bad);
  write(figure.box.querySelector(".note"), bad ? figure.worry : figure.help);
}

// The mean of the last second before the frame of this index.
function rateAt(index, count) {
  const at = history[index];
  let first = index;
  while (first > 0 && at.loop_ms - history[first].loop_ms < RATE_MS)
    first--;
  const ms = at.loop_ms - history[first].loop_ms;
  return ms === 0 ? 0 : (count(at) - count(history[first])) * 1000 / ms;
}

const rate = number => number < 10 ? number.toFixed(1)
  : format(Math.round(number));

function drawTiles() {
  const end = history.length - 1;
  for (const tile of placed("tile")) {
    const values = history.map((past, i) => // the first has no rate yet
      tile.counts ? rateAt(Math.max(i, Math.min(end, 2)), at => at[tile.name])
        : past[tile.name]);
    const most = Math.max(1, ...values), now = values[end];
    write(by(tile.name), tile.counts ? rate(now) : show(tile, now));
    drawNote(tile);
    tile.box.querySelector("path").setAttribute("d", values.map((value, i) =>
      (i === 0 ? "M" : "L") +
      (100 - (frame.loop_ms - history[i].loop_ms) * 100 / HISTORY_MS)
        .toFixed(2) +
      " " + (97 - value * 94 / most).toFixed(1)).join(""));
  }
}

function drawHealth() {
  for (const figure of placed("health")) {
    write(by(figure.name), show(figure, frame[figure.name]));
    drawNote(figure);
  }
}

// ---- The wheels ----------------------------------------------------------

const columns = () => ["timers", "fired", "backlog", "stalls", "unanswered"]
  .map(name => figures.find(figure => figure.name === name));

function buildWheels() {
  const table = by("wheels").querySelector("table");
  const [head, foot] = [table.tHead.rows[0], table.tFoot.rows[0]];
  by("wheels").hidden = frame.names.length === 1;
  for (const row of [head, table.tBodies[0], foot])
    row.replaceChildren();
  element("th", head, {scope: "col"}).textContent = "Wheel";
  element("th", foot, {scope: "row"}).textContent = "All";
  for (const figure of columns()) {
    element("th", head, {scope: "col", title: figure.help}).textContent =
      figure.title + (figure.counts && figure.limit === 0 && !figure.worry
        ? " /s" : "");
    element("td", foot);
  }
  frame.names.forEach((name, k) => {
    const row = element("tr", table.tBodies[0]);
    const button = element("button", element("th", row, {scope: "row"}),
      {type: "button"});
    button.textContent = name;
    button.onclick = () => look(k);
    for (const _ of columns())
      element("td", row);
  });
}

// A figure that always grows is shown per second, any other as it is.
function cellOf(figure, wheels) {
  const sum = at => wheels.reduce((all, k) => all + at.all[figure.name][k], 0);
  if (figure.unit !== 1) // a time: the longest
    return time(Math.max(...wheels.map(k => frame.all[figure.name][k])));
  return figure.counts && !figure.worry ? rate(rateAt(history.length - 1, sum))
    : format(sum(frame));
}

function drawWheels() {
  const table = by("wheels").querySelector("table");
  const everyone = frame.names.map((_, k) => k);
  const rows = [...table.tBodies[0].rows].map((row, k) => [row, [k]]);
  if (everyone.length === 1)
    return;
  for (const [row, wheels] of [...rows, [table.tFoot.rows[0], everyone]])
    columns().forEach((figure, i) =>
      write(row.cells[i + 1], cellOf(figure, wheels)));
  rows.forEach(([row], k) => {
    row.classList.toggle("bad", figures.some(figure => isBad(figure, k)));
    row.querySelector("button").setAttribute("aria-pressed", k === wheel);
  });
}

// ---- Lateness ------------------------------------------------------------

// Bucket b is from 2^(b-1) ms to 2^b - 1, bucket 0 is not late at all.
function rangeOf(bucket) {
  const from = bucket === 0 ? 0 : 2 ** (bucket - 1), to = 2 ** bucket - 1;
  if (bucket === frame.lateness.length - 1)
    return `${format(from)} ms and more`;
  return (from === to ? from : format(from) + "\u2013" + format(to)) + " ms";
}

const sum = counts => counts.reduce((all, count) => all + count, 0);

// Within how many ms this share of them fired.
function percentile(counts, share, mostMs) {
  const all = sum(counts);
  let seen = 0;
  const bucket = counts.findIndex(count => (seen += count) >= share * all);
  return Math.min(2 ** bucket - 1, mostMs);
}

function drawPercentiles(row, counts, mostMs) {
  const [, half, most, latest] = row.cells;
  const isEmpty = sum(counts) === 0;
  write(half, isEmpty ? "\u2013" : time(percentile(counts, .5, mostMs)));
  write(most, isEmpty ? "\u2013" : time(percentile(counts, .99, mostMs)));
  write(latest, isEmpty ? "\u2013" : time(mostMs));
}

function isLate() {
  const minute = frame.due_lateness.map(
    (count, bucket) => count - history[0].due_lateness[bucket]);
  return sum(minute) > 0 && percentile(minute, .99, frame.due_lateness_max) >
    2 * frame.tick_ms + 100;
}

function drawBars() {
  const body = by("lateness").tBodies[0];
  const lists = [frame.due_lateness, frame.lateness];
  const last = frame.due_lateness.findLastIndex(count => count > 0);
  const rows = Math.max(SHORTEST_LATENESS, last + 1);
  while (body.children.length < rows) {
    const row = element("tr", body);
    element("th", row, {scope: "row"}).textContent =
      rangeOf(body.children.length - 1);
    const bars = element("td", row);
    element("span", bars, {class: "bar due"});
    element("span", bars, {class: "bar tick"});
    element("td", row);
  }
  const most = Math.max(1, ...frame.due_lateness, ...frame.lateness);
  for (let i = 0; i < body.children.length; i++) {
    const [, bars, share] = body.children[i].children;
    lists.forEach((list, k) => {
      bars.children[k].style.width = list[i] * 100 / most + "%";
    });
    write(share, lists[0][i] === 0 ? "0 %"
      : percent(lists[0][i], sum(lists[0])));
  }
}

function drawLateness() {
  const fired = sum(frame.due_lateness), late = isLate();
  write(by("tick"), time(frame.tick_ms));
  drawPercentiles(by("due-late"), frame.due_lateness, frame.due_lateness_max);
  drawPercentiles(by("tick-late"), frame.lateness, frame.lateness_max);
  by("due-late").classList.toggle("bad", late);
  by("late-worry").hidden = !late;
  drawBars();
  write(by("late-summary"), fired === 0 ? "Nothing has fired yet."
    : `${counted(fired, "timer")} fired since the start:`);
}

// ---- Frames --------------------------------------------------------------

// Of each figure there is a list, of all wheels. The chosen one's number gets
// its name.
function unpack(next) {
  next.all = {};
  for (const {name} of figures) {
    next.all[name] = next[name];
    next[name] = next.all[name][next.wheel];
  }
  return next;
}

// A blocked loop says nothing new: its last frame is replaced.
function remember(next) {
  const {cells, lateness, ...past} = next;
  const last = history[history.length - 1];
  if (last && (past.wheel !== last.wheel || past.loop_ms < last.loop_ms ||
      past.started < last.started))
    history = []; // another wheel, or another server
  else if (last && past.loop_ms === last.loop_ms)
    history.pop();
  history.push(past);
  history = history.filter(({loop_ms: then}) =>
    past.loop_ms - then <= HISTORY_MS);
}

function isOther(next) {
  return !frame || frame.cells.length !== next.cells.length ||
    frame.slots !== next.slots || frame.tick_ms !== next.tick_ms ||
    frame.wheel !== next.wheel || frame.names.length !== next.names.length;
}

function draw(next) {
  if (next.now_ms === 0)
    return; // its loop has not answered yet
  const isNew = isOther(next);
  const isFresh = isNew || Math.abs(next.now_ms - frame.now_ms) > 2000;
  remember(next);
  if (!isFresh && calm.matches && next.loop_ms - frame.loop_ms < 1000)
    return;
  frame = next;
  if (isNew) {
    chosen = null;
    buildRing();
    buildWheels();
  }
  drawWheels();
  drawRing(isFresh);
  drawMiddle();
  drawSummary();
  drawRounds();
  drawSlotTable();
  drawTiles();
  drawLateness();
  drawHealth();
}

function say(state, text) {
  by("status").className = state;
  write(by("status"), text);
}

function connect() {
  source = new EventSource(`/events?wheel=${wheel}`);
  source.onopen = () => say("live", "live");
  source.addEventListener("figures", event => {
    figures = JSON.parse(event.data);
    buildFigures();
  });
  source.onmessage = event => draw(unpack(JSON.parse(event.data)));
  source.onerror = () => {
    say("lost", "no connection, trying again");
    if (source.readyState !== EventSource.CLOSED)
      return; // the browser tries again by itself
    const refused = source; // too many viewers, or there is no such wheel
    wheel = 0;
    setTimeout(() => source === refused && connect(), 5000);
  };
}

function look(at) {
  wheel = at;
  if (!source)
    return;
  source.close();
  connect();
}

by("pause").onclick = () => {
  if (source) {
    source.close();
    source = null;
    say("", "paused");
  } else {
    say("", "connecting");
    connect();
  }
  write(by("pause"), source ? "Pause" : "Resume");
};

// ---- Looking into slots --------------------------------------------------

function choose(cell) {
  chosen = cell;
  drawMiddle();
  const ring = by("ring");
  ring.setAttribute("aria-valuenow", cell === null ? 0 : cell);
  ring.setAttribute("aria-valuetext", cell === null
    ? "none; use the arrow keys"
    : `${nameOf(cell)}: ${counted(frame.cells[cell], "timer")}, ` +
      `the hand comes in ${seconds(comesIn(cell))}`);
}

by("ring").onkeydown = event => {
  if (!frame)
    return;
  const cells = frame.cells.length, page = Math.max(1, cells / 16);
  const hand = Math.floor(frame.now_ms / frame.tick_ms / slotsPerCell());
  const from = chosen === null ? hand % cells : chosen;
  const target = {
    ArrowRight: from + 1, ArrowUp: from + 1,
    ArrowLeft: from - 1, ArrowDown: from - 1,
    PageUp: from + page, PageDown: from - page,
    Home: 0, End: cells - 1, Escape: null
  }[event.key];
  if (target === undefined)
    return;
  event.preventDefault();
  choose(target === null ? null : (target + cells) % cells);
};

// A mouse, or a finger.
function choosePointed(event) {
  if (!frame)
    return;
  const box = by("ring").getBoundingClientRect();
  const x = (event.clientX - box.left) / box.width - .5;
  const y = (event.clientY - box.top) / box.height - .5;
  const radius = Math.hypot(x, y) * 214, turn = Math.atan2(x, -y) / 2 / Math.PI;
  choose(radius < RING.inner - 4 || radius > RING.outer + 4 ? null
    : Math.floor((turn + 1) % 1 * frame.cells.length));
}
by("ring").onpointermove = choosePointed;
by("ring").onpointerdown = choosePointed;
by("ring").onpointerleave = event =>
  event.pointerType === "mouse" && frame && choose(null);

for (let level = 1; level <= LEVELS; level++)
  element("rect", by("scale"), {x: (level - 1) * 14, width: 14, height: 14,
    class: "l" + level});
connect();
