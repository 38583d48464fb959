// SPDX-License-Identifier: MIT

"use strict";

const by = id => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const LEVELS = 8, SHORTEST_LATENESS = 10;
const RING = {inner: 72, outer: 100};
const MIDDLE = (RING.inner + RING.outer) / 2;
const HISTORY_MS = 60000, RATE_MS = 1000;
const RECENT_MS = 300000;
const TOGETHER_MS = 2000; // stalls of several loops, as each is judged
const SILENCE_MS = 2000; // of a server that sends frames all the time

let source = null;   // of events, or null while paused
let heard = 0;       // when it last sent one
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

// In its largest unit, from two of them on.
function span(ms) {
  const [size, unit] = [[86400000, "days"], [3600000, "h"], [60000, "min"]]
    .find(([least]) => ms >= 2 * least) || [1000, "s"];
  return `${format(Math.floor(ms / size))} ${unit}`;
}

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
  const width = 2 * Math.PI / frame.cells.length;
  const gap = frame.cells.length > 128 ? 0 : width / 16;
  const at = (radius, angle) =>
    (radius * Math.sin(angle)).toFixed(2) + " " +
    (-radius * Math.cos(angle)).toFixed(2);
  const from = cell * width + gap, to = (cell + 1) * width - gap;
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
  const rounds = frame.now_ms / round - firstRound;
  const ahead = frame.timeout_ms / round;
  for (const [id, part] of [["hand", 0], ["ahead", ahead]]) {
    by(id).classList.toggle("moving", !isFresh && !calm.matches);
    by(id).style.transform = `rotate(${360 * (rounds + part)}deg)`;
  }
  write(by("most"), format(scale));
  by("scale-legend").style.visibility =
    Math.max(...frame.cells) > 1 ? "" : "hidden";
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
  if (frame.overdue > 0)
    text += ` The hand is ${format(frame.overdue)} ms behind.`;
  write(by("summary"), text);
}

// ---- The figures ---------------------------------------------------------

// As text: a count, or a time.
function show(figure, number) {
  if (figure.unit === 1)
    return format(number);
  return figure.unit === 1000 ? time(number)
    : (number / 1000).toFixed(2) + " ms";
}

// How long ago the server found it bad.
function agoOf(name, k = wheel) {
  const at = frame.all[name + "_bad"]?.[k];
  return at ? frame.page_ms - at : Infinity;
}

const isBad = (name, k) => agoOf(name, k) < RECENT_MS;

// The name that the statistics and the metrics have, as words.
const titleOf = ({name}) =>
  name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

const placed = place => figures.filter(figure => figure.place === place);

function buildTile(figure) {
  const box = element("div", by("tiles"), {class: "tile"});
  element("span", box, {class: "name"}).textContent = titleOf(figure);
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
  element("dt", box).textContent = titleOf(figure);
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

// What it is, or, if it was bad lately, what that means.
function drawNote(box, {name, help, worry}) {
  const length = name === "stalls" ? `, ${time(frame.stall_ms)} long` : "";
  box.classList.toggle("bad", isBad(name));
  write(box.querySelector(".note"), isBad(name)
    ? `${worry} Last: ${span(agoOf(name))} ago${length}.` : help);
}

// Since when the server runs, and the last stall, which may be of many loops.
function drawPast() {
  const {name: names, stall_ms: lengths} = frame.all;
  const agos = names.map((_, k) => agoOf("stalls", k));
  const ago = Math.min(...agos);
  const hit = [...names.keys()].filter(k => agos[k] - ago < TOGETHER_MS);
  const whose = names.length === 1 ? ""
    : `, wheel${hit.length === 1 ? "" : "s"} ${hit.map(k => names[k])
      .join(", ")}`;
  write(by("past"), `up ${span(frame.uptime_ms)}; ` + (ago === Infinity
    ? "no stall" : `last stall ${span(ago)} ago, ` +
      `${time(Math.max(...hit.map(k => lengths[k])))} long${whose}`));
  by("past").classList.toggle("bad", ago < RECENT_MS);
}

// The mean of the last second before the frame of this index; the first frame
// has none.
function rateAt(index, count) {
  const at = history[index];
  let first = index;
  while (first > 0 && at.now_ms - history[first].now_ms < RATE_MS)
    first--;
  const ms = at.now_ms - history[first].now_ms;
  return (count(at) - count(history[first])) * 1000 / ms;
}

const rate = number => isNaN(number) ? "\u2013"
  : number < 10 ? number.toFixed(1) : format(Math.round(number));

function drawTiles() {
  const end = history.length - 1;
  for (const tile of placed("tile")) {
    const values = history.map((past, i) =>
      tile.counts ? rateAt(Math.max(i, Math.min(end, 2)), at => at[tile.name])
        : past[tile.name]);
    const now = values[end], drawn = values.map(value => value || 0);
    const most = Math.max(1, ...drawn);
    write(by(tile.name), tile.counts ? rate(now) : show(tile, now));
    drawNote(tile.box, tile);
    tile.box.querySelector("path").setAttribute("d", drawn.map((value, i) =>
      (i === 0 ? "M" : "L") +
      (100 - (frame.now_ms - history[i].now_ms) * 100 / HISTORY_MS)
        .toFixed(2) +
      " " + (97 - value * 94 / most).toFixed(1)).join(""));
  }
}

function drawHealth() {
  for (const figure of placed("health")) {
    write(by(figure.name), show(figure, frame[figure.name]));
    drawNote(figure.box, figure);
  }
}

// ---- The wheels ----------------------------------------------------------

const columns = () => ["active", "fired", "overdue", "stalls", "unanswered"]
  .map(name => figures.find(figure => figure.name === name));

function buildWheels() {
  const table = by("wheels").querySelector("table");
  const [head, foot] = [table.tHead.rows[0], table.tFoot.rows[0]];
  by("wheels").hidden = frame.all.name.length === 1;
  for (const row of [head, table.tBodies[0], foot])
    row.replaceChildren();
  element("th", head, {scope: "col"}).textContent = "Wheel";
  element("th", foot, {scope: "row"}).textContent = "All";
  for (const figure of columns()) {
    element("th", head, {scope: "col", title: figure.help}).textContent =
      titleOf(figure) + (figure.counts && !figure.worry ? " /s" : "");
    element("td", foot);
  }
  frame.all.name.forEach((name, k) => {
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

// A wheel's name is marked if one of its figures is bad that has no column.
function drawWheels() {
  const table = by("wheels").querySelector("table");
  const everyone = frame.all.name.map((_, k) => k);
  const rows = [...table.tBodies[0].rows].map((row, k) => [row, [k]]);
  const others = [...figures, {name: "lateness"}]
    .filter(figure => !columns().includes(figure));
  if (everyone.length === 1)
    return;
  for (const [row, wheels] of [...rows, [table.tFoot.rows[0], everyone]])
    columns().forEach((figure, i) =>
      write(row.cells[i + 1], cellOf(figure, wheels)));
  rows.forEach(([row], k) => {
    const bad = others.filter(({name}) => isBad(name, k)).map(titleOf);
    const button = row.querySelector("button");
    columns().forEach(({name}, i) =>
      row.cells[i + 1].classList.toggle("bad", isBad(name, k)));
    button.classList.toggle("bad", bad.length > 0);
    button.title = bad.length > 0 ? `Bad: ${bad.join(", ")}` : "";
    button.setAttribute("aria-pressed", k === wheel);
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

function drawBars(counts) {
  const body = by("lateness").tBodies[0];
  const last = counts.findLastIndex(count => count > 0);
  const rows = Math.max(SHORTEST_LATENESS, last + 1);
  while (body.children.length < rows) {
    const row = element("tr", body);
    element("th", row, {scope: "row"}).textContent =
      rangeOf(body.children.length - 1);
    element("span", element("td", row), {class: "bar"});
    element("td", row);
  }
  const most = Math.max(1, ...counts), all = Math.max(1, sum(counts));
  [...body.children].forEach((row, i) => {
    row.querySelector(".bar").style.width = counts[i] * 100 / most + "%";
    write(row.cells[2], counts[i] === 0 ? "0 %" : percent(counts[i], all));
  });
}

function drawLateness() {
  const {lateness: counts, lateness_max: mostMs} = frame;
  const fired = sum(counts);
  write(by("tick"), time(frame.tick_ms));
  write(by("percentiles"), fired === 0 ? "Nothing has fired yet."
    : `Half within ${time(percentile(counts, .5, mostMs))}, 99 % within ` +
      `${time(percentile(counts, .99, mostMs))}, the latest after ` +
      `${time(mostMs)}.`);
  drawNote(by("late"), {name: "lateness", help: "",
    worry: "Bad when 1 % take over two ticks and 100 ms."});
  drawBars(counts);
}

// ---- Frames --------------------------------------------------------------

// The figures of all wheels come as lists. The chosen wheel's own get the names
// of the lists.
function unpack(next) {
  for (const name in next.all)
    next[name] = next.all[name][next.wheel];
  return next;
}

// A blocked loop says nothing new: its last frame is replaced.
function remember(next) {
  const {cells, lateness, ...past} = next;
  const last = history[history.length - 1];
  if (last && (past.wheel !== last.wheel || past.now_ms < last.now_ms ||
      past.started < last.started))
    history = []; // another wheel, or another server
  else if (last && past.now_ms === last.now_ms)
    history.pop();
  history.push(past);
  history = history.filter(({now_ms: then}) =>
    past.now_ms - then <= HISTORY_MS);
}

function isOther(next) {
  return !frame || frame.cells.length !== next.cells.length ||
    frame.slots !== next.slots || frame.tick_ms !== next.tick_ms ||
    frame.wheel !== next.wheel ||
    frame.all.name.length !== next.all.name.length;
}

function draw(next) {
  if (next.cells.length === 0)
    return; // its loop has not counted them yet
  const isNew = isOther(next);
  const isFresh = isNew || Math.abs(next.now_ms - frame.now_ms) > 2000;
  remember(next);
  if (!isFresh && calm.matches && next.now_ms - frame.now_ms < 1000)
    return;
  frame = next;
  if (isNew) {
    chosen = null;
    buildRing();
    buildWheels();
  }
  drawPast();
  drawWheels();
  drawRing(isFresh);
  drawMiddle();
  drawSummary();
  drawTiles();
  drawLateness();
  drawHealth();
}

function say(state, text) {
  by("status").className = state;
  write(by("status"), text);
}

function hear() {
  heard = performance.now();
  say("live", "live");
}

// A server that is frozen or blocked keeps its connections.
setInterval(() => {
  if (source && source.readyState === EventSource.OPEN &&
      performance.now() - heard > SILENCE_MS)
    say("lost", "no answer");
}, 500);

function connect() {
  source = new EventSource(`/events?wheel=${wheel}`);
  source.onopen = hear;
  source.addEventListener("figures", event => {
    figures = JSON.parse(event.data);
    buildFigures();
  });
  source.onmessage = event => {
    hear();
    draw(unpack(JSON.parse(event.data)));
  };
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
  const radius = Math.hypot(x, y) * 214, part = Math.atan2(x, -y) / 2 / Math.PI;
  choose(radius < RING.inner - 4 || radius > RING.outer + 4 ? null
    : Math.floor((part + 1) % 1 * frame.cells.length));
}
by("ring").onpointermove = choosePointed;
by("ring").onpointerdown = choosePointed;
by("ring").onpointerleave = event =>
  event.pointerType === "mouse" && frame && choose(null);

for (let level = 1; level <= LEVELS; level++)
  element("rect", by("scale"), {x: (level - 1) * 14, width: 14, height: 14,
    class: "l" + level});
connect();
