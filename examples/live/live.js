// SPDX-License-Identifier: MIT

"use strict";

const by = id => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const LEVELS = 8, TABLE_ROWS = 16, SHORTEST_LATENESS = 10;
const RING = {inner: 72, outer: 100};
const MIDDLE = (RING.inner + RING.outer) / 2;
const HISTORY_MS = 60000, RATE_MS = 1000;

let source = null;   // of events, or null while paused
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

// The wheel's clock, now_ms, steps back after a stall. This one never does.
const loopMs = at => at.now_ms + at.deaf_ms;

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
    format(chosen === null ? frame.active : frame.cells[chosen]));
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
  if (frame.backlog_ms > 0)
    text += ` The hand is ${format(frame.backlog_ms)} ms behind.`;
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

const inVain = now => now.looked - now.moved - now.fired;

const tiles = [
  {title: "Active timers", id: "active", value: now => now.active,
   note: now => `${format(now.started)} started`},
  {title: "Refreshed", id: "refreshed", rate: now => now.refreshed,
   note: () => "one store each"},
  {title: "Fired", id: "fired", rate: now => now.fired,
   note: now => `${format(now.fired)} so far`},
  {title: "Moved", id: "moved", rate: now => now.moved,
   note: () => "found refreshed"},
  {title: "Looked at in vain", id: "in-vain", rate: inVain,
   note: () => "due in later rounds"},
  {title: "Turns", id: "turns", rate: now => now.turns,
   note: now => `${format(now.turns)} so far`},
];

function buildTiles() {
  for (const tile of tiles) {
    const box = element("div", by("tiles"), {class: "tile"});
    element("span", box, {class: "muted"}).textContent = tile.title;
    const value = element("span", box, {class: "value"});
    tile.number = element("span", value, {id: tile.id});
    if (tile.rate)
      element("abbr", value, {class: "muted", title: "per second"})
        .textContent = " /s";
    tile.text = element("span", box, {class: "muted"});
    const svg = element("svg", box, {viewBox: "0 0 100 100",
      preserveAspectRatio: "none", "aria-hidden": "true"});
    tile.line = element("path", svg);
  }
}

// The mean of the last second before the frame of this index.
function rateAt(index, count) {
  const at = history[index];
  let first = index;
  while (first > 0 && loopMs(at) - loopMs(history[first]) < RATE_MS)
    first--;
  const ms = loopMs(at) - loopMs(history[first]);
  return ms === 0 ? 0 : (count(at) - count(history[first])) * 1000 / ms;
}

function drawTiles() {
  const end = history.length - 1;
  for (const tile of tiles) {
    const values = history.map((past, i) => // the first has no rate yet
      tile.rate ? rateAt(Math.max(i, Math.min(end, 2)), tile.rate)
        : tile.value(past));
    const most = Math.max(1, ...values), now = values[end];
    write(tile.number, tile.rate && now < 10 ? now.toFixed(1)
      : format(Math.round(now)));
    write(tile.text, tile.note(frame));
    tile.line.setAttribute("d", values.map((value, i) =>
      (i === 0 ? "M" : "L") +
      (100 - (loopMs(frame) - loopMs(history[i])) * 100 / HISTORY_MS)
        .toFixed(2) +
      " " + (97 - value * 94 / most).toFixed(1)).join(""));
  }
}

// ---- Lateness ------------------------------------------------------------

// Bucket b is from 2^(b-1) ms to 2^b - 1, bucket 0 is not late at all.
function rangeOf(bucket) {
  const from = bucket === 0 ? 0 : 2 ** (bucket - 1), to = 2 ** bucket - 1;
  if (bucket === frame.lateness.length - 1)
    return `${format(from)} ms and more`;
  return (from === to ? from : format(from) + "\u2013" + format(to)) + " ms";
}

// Who fires before its time has no lateness.
const inTime = now => now.fired - now.fired_early;

// Within how many ms this share of them fired.
function percentile(share) {
  let seen = 0;
  const bucket = frame.lateness.findIndex(count =>
    (seen += count) >= share * inTime(frame));
  return Math.min(2 ** bucket - 1, frame.lateness_max_ms);
}

function drawLateness() {
  const body = by("lateness").tBodies[0];
  const last = frame.lateness.findLastIndex(count => count > 0);
  const rows = Math.max(SHORTEST_LATENESS, last + 1);
  while (body.children.length < rows) {
    const row = element("tr", body);
    element("th", row, {scope: "row"}).textContent =
      rangeOf(body.children.length - 1);
    element("span", element("td", row), {class: "bar"});
    element("td", row);
  }
  const most = Math.max(1, ...frame.lateness);
  for (let i = 0; i < body.children.length; i++) {
    const [, bar, share] = body.children[i].children;
    const count = frame.lateness[i];
    bar.firstChild.style.width = count * 100 / most + "%";
    write(share, count === 0 ? "0 %" : percent(count, inTime(frame)));
  }
  write(by("late-summary"), inTime(frame) === 0 ? "Nothing has fired yet."
    : `Half within ${format(percentile(.5))} ms, 99 % within ` +
      `${format(percentile(.99))} ms, the latest by ` +
      `${format(frame.lateness_max_ms)} ms; a tick is ` +
      `${format(frame.tick_ms)} ms.`);
}

// ---- Trouble -------------------------------------------------------------

const troubles = [
  {title: "Stalls", id: "stalls", text: now => now.stalls === 0 ? "none"
    : `${format(now.stalls)}, at most ${seconds(now.stall_max_ms)}`},
  {title: "Clock set back by", id: "deaf", text: now => seconds(now.deaf_ms)},
  {title: "Turns cut", id: "turns-cut", text: now => format(now.turns_cut)},
  {title: "Longest turn", id: "turn-max",
   text: now => (now.turn_max_us / 1000).toFixed(2) + " ms"},
  {title: "Fired early", id: "fired-early",
   text: now => format(now.fired_early)},
];

function buildTroubles() {
  for (const trouble of troubles) {
    const pair = element("div", by("trouble").querySelector("dl"));
    element("dt", pair).textContent = trouble.title;
    trouble.value = element("dd", pair, {id: trouble.id});
  }
}

function drawTroubles() {
  for (const trouble of troubles)
    write(trouble.value, trouble.text(frame));
}

// ---- Frames --------------------------------------------------------------

function remember(next) {
  const {cells, lateness, ...figures} = next;
  const last = history[history.length - 1];
  if (last && (loopMs(next) < loopMs(last) || next.started < last.started))
    history = []; // another server
  history.push(figures);
  history = history.filter(past => loopMs(next) - loopMs(past) <= HISTORY_MS);
}

function draw(next) {
  const isNew = !frame || frame.cells.length !== next.cells.length ||
    frame.slots !== next.slots || frame.tick_ms !== next.tick_ms;
  const isFresh = isNew || Math.abs(next.now_ms - frame.now_ms) > 2000;
  remember(next);
  if (!isFresh && calm.matches && loopMs(next) - loopMs(frame) < 1000)
    return;
  frame = next;
  if (isNew) {
    chosen = null;
    buildRing();
  }
  drawRing(isFresh);
  drawMiddle();
  drawSummary();
  drawRounds();
  drawSlotTable();
  drawTiles();
  drawLateness();
  drawTroubles();
}

function show(state, text) {
  by("status").className = state;
  write(by("status"), text);
}

function connect() {
  source = new EventSource("/events");
  source.onopen = () => show("live", "live");
  source.onmessage = event => draw(JSON.parse(event.data));
  source.onerror = () => {
    show("lost", "no connection, trying again");
    if (source.readyState !== EventSource.CLOSED)
      return; // the browser tries again by itself
    const refused = source; // there may be too many viewers
    setTimeout(() => source === refused && connect(), 5000);
  };
}

by("pause").onclick = () => {
  if (source) {
    source.close();
    source = null;
    show("", "paused");
  } else {
    show("", "connecting");
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
buildTiles();
buildTroubles();
connect();
