// SPDX-License-Identifier: MIT

"use strict";

const by = id => document.getElementById(id);
const LEVELS = 8;
const HISTORY_MS = 60000, RATE_MS = 1000;
const RECENT_MS = 300000; // LIVE_RECENT_MS
const TOGETHER_MS = 2000; // trouble of several loops, as each is judged
const INTERVAL_MS = 250; // between two frames
const SILENCE_MS = 2000; // then the server is frozen, or blocked

let figures = [];    // the table of live-figures.c
let wheel = 0;       // the one that is looked at
let frame = null;    // the last one drawn
let drawnMs = 0;     // when, by the browser's clock
let history = [];    // of frames without their slots, for HISTORY_MS
let scale = 1;       // the number of timers that is shaded darkest
let firstRound = 0;  // keeps angles small

const {format} = new Intl.NumberFormat("en");
const seconds = ms => ms < 9950 ? (ms / 1000).toFixed(1) + " s"
  : format(Math.round(ms / 1000)) + " s";
const time = ms => ms < 1000 ? `${format(ms)} ms` : seconds(ms);
const counted = (n, word) => format(n) + " " + word + (n === 1 ? "" : "s");
const sum = numbers => numbers.reduce((all, n) => all + n, 0);

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

// Each cell is a dash of a circle, whose length is the number of cells.
function buildRing() {
  const count = frame.cells.length, round = frame.slots * frame.tick_ms;
  by("cells").replaceChildren(by("rim"));
  frame.cells.forEach((_, cell) => element("circle", by("cells"), {
    r: by("rim").getAttribute("r"), pathLength: count, stroke: "none",
    "stroke-dasharray": `${count > 128 ? 1 : .94} ${count}`,
    "stroke-dashoffset": -cell
  }));
  [...by("marks").children].forEach((mark, quarter) =>
    write(mark, String(frame.slots * quarter / 4)));
  firstRound = Math.floor(frame.now_ms / round);
}

// 1, 2, 5, 10, 20 ...: the scale does not flicker with the fullest slot.
function roundUp(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  return power * [1, 2, 5, 10].find(step => step * power >= n);
}

// By the logarithm: a slot may hold a thousand times what another one does.
const levelOf = count => scale === 1 ? LEVELS : Math.min(LEVELS,
  1 + Math.round(Math.log(count) / Math.log(scale) * (LEVELS - 1)));

function drawRing() {
  const fullest = Math.max(...frame.cells), most = roundUp(fullest);
  if (most > scale || most < scale / 4)
    scale = most;
  const cells = by("cells").children; // the first is the rim
  frame.cells.forEach((count, cell) => {
    const colour = count === 0 ? "none" : `var(--s${levelOf(count)})`;
    if (cells[cell + 1].getAttribute("stroke") !== colour)
      cells[cell + 1].setAttribute("stroke", colour);
  });
  const round = frame.slots * frame.tick_ms;
  const rounds = frame.now_ms / round - firstRound;
  by("hand").style.transform = `rotate(${360 * rounds}deg)`;
  write(by("middle"), format(frame.active));
  write(by("most"), format(scale));
  by("scale-legend").style.visibility = fullest > 1 ? "" : "hidden";
}

function drawSummary() {
  const used = frame.cells.filter(count => count > 0).length;
  const group = frame.slots / frame.cells.length;
  write(by("summary"), `${format(used)} of ${format(frame.cells.length)} ` +
    (group === 1 ? "slots" : `groups of ${format(group)} slots`) +
    ` in use, at most ${counted(Math.max(...frame.cells), "timer")} in one.` +
    (isOld() ? ` As of ${time(frame.unanswered)} ago.` : ""));
}

function drawSetup() {
  write(by("setup"), `${counted(frame.slots, "slot")} of ` +
    `${format(frame.tick_ms)} ms, ${seconds(frame.slots * frame.tick_ms)} a ` +
    `round; connections time out after ${seconds(frame.timeout_ms)}; ` +
    `up ${span(frame.uptime_ms)}`);
}

// ---- The figures ---------------------------------------------------------

// As text: a count, or a time.
const show = ({unit}, number) => unit === 1 ? format(number)
  : unit === 1000 ? time(number) : (number / 1000).toFixed(2) + " ms";

// How long ago the server found it bad.
function agoOf(name, k = wheel) {
  const at = frame.all[name + "_bad"]?.[k];
  return at ? frame.page_ms - at : Infinity;
}

const agoText = ms => ms < 2000 ? "now" : `${span(ms)} ago`;
const isBad = (name, k) => agoOf(name, k) < RECENT_MS;

// A time that was bad lately stays at its worst.
const worstOf = (name, k = wheel) => Math.max(frame.all[name][k],
  isBad(name, k) && frame.all[name + "_worst"]?.[k] || 0);

// The name that the statistics and the metrics have, as words.
const titleOf = ({name}) =>
  name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

// How many connections a server has open stands beside its timers.
const isTile = ({place, counts}) =>
  place === "tile" || place === "server" && !counts;
const listOf = figure => by(isTile(figure) ? "tile" : figure.place);
const placed = () => figures.filter(listOf);

function buildFigures() {
  for (const place of ["tile", "first", "health"])
    by(place).replaceChildren();
  for (const figure of placed()) {
    const box = element("div", listOf(figure));
    element("dt", box).textContent = titleOf(figure);
    const value = element("dd", box, {class: "value"});
    element("span", value, {id: figure.name});
    if (isTile(figure) && figure.counts)
      element("abbr", value, {class: "muted", title: "per second"})
        .textContent = " /s";
    element("dd", box, {class: "note"});
    if (isTile(figure))
      element("path", element("svg", box, {viewBox: "0 0 100 100",
        preserveAspectRatio: "none", "aria-hidden": "true"}));
    box.title = `${figure.help} ${figure.worry}`.trim();
    figure.box = box;
  }
}

// What it is, or, if it was bad lately, what that means.
function drawNote(box, figure) {
  const {name, help, worry} = figure, ago = agoText(agoOf(name));
  const last = name + "_worst" in frame.all
    ? `Last: ${ago}; at present ${show(figure, frame[name])}.`
    : `Last: ${ago}` +
      (name === "stalls" ? `, ${time(frame.stall_ms)} long.` : ".");
  box.classList.toggle("bad", isBad(name));
  write(box.querySelector(".note"), isBad(name) ? `${worry} ${last}` : help);
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

function drawTile({name, counts, box}) {
  const end = history.length - 1;
  const values = history.map((past, i) => !counts ? past[name]
    : rateAt(Math.max(i, Math.min(end, 2)), at => at[name]));
  const most = Math.max(1, ...values.filter(value => value));
  write(by(name), counts ? rate(values[end]) : format(values[end]));
  box.querySelector("path").setAttribute("d", "M" + values.map((value, i) =>
    (100 - (frame.now_ms - history[i].now_ms) * 100 / HISTORY_MS).toFixed(2) +
    " " + (97 - (value || 0) * 94 / most).toFixed(1)).join("L"));
}

function drawFigures() {
  for (const figure of placed()) {
    drawNote(figure.box, figure);
    if (isTile(figure))
      drawTile(figure);
    else
      write(by(figure.name), show(figure, worstOf(figure.name)));
  }
}

// ---- The verdict ---------------------------------------------------------

// Its loop has not told of the wheel for so long.
const isOld = () => frame.unanswered > SILENCE_MS;

// The last trouble of this kind, and whose: it may be of many loops.
function lastOf(figure) {
  const names = frame.all.name;
  const agos = names.map((_, k) => agoOf(figure.name, k));
  const ago = Math.min(...agos);
  const hit = [...names.keys()].filter(k => agos[k] - ago < TOGETHER_MS);
  return {figure, ago, hit, whose: names.length === 1 ? ""
    : `, on wheel${hit.length === 1 ? "" : "s"} ` +
      hit.map(k => names[k]).join(", ")};
}

const longest = ({hit}) =>
  time(Math.max(...hit.map(k => frame.all.stall_ms[k])));

// Such as "(overdue 2.0 s, 3 s ago, wheels 1, 2)".
function evidenceOf({figure, ago, hit, whose}) {
  const {name} = figure, title = titleOf(figure).toLowerCase();
  const what = name === "stalls" ? "a stall of " + longest({hit})
    : name + "_worst" in frame.all ? `${title} ${show(figure,
      Math.max(...hit.map(k => worstOf(name, k))))}` : title;
  return `(${what}, ${agoText(ago)}${whose})`;
}

// The worst that there was lately, of the kinds in this order.
function drawVerdict() {
  const kinds = ["first", "server", "health", "lateness", "nowhere"].flatMap(
    kind => figures.filter(({place, worry}) => place === kind && worry))
    .map(lastOf);
  const worst = kinds.find(({ago}) => ago < RECENT_MS);
  const stall = kinds.find(({figure: {name}}) => name === "stalls");
  const calm = "The timers have had no trouble" +
    (frame.uptime_ms < RECENT_MS ? "." : " in the last 5 minutes.") +
    (stall.ago === Infinity ? "" : ` Last stall ${span(stall.ago)} ago, ` +
      `${longest(stall)} long${stall.whose}.`);
  write(by("verdict"), !worst ? calm
    : worst.figure.worry.replace(/.*: (.)(.*)\./, (_, first, rest) =>
      first.toUpperCase() + rest) + ` ${evidenceOf(worst)}.`);
  by("verdict").classList.toggle("bad", Boolean(worst));
}

// The server says nothing any more.
function drawGone(why) {
  if (!frame)
    return;
  document.body.classList.add("gone");
  by("verdict").classList.add("bad");
  write(by("verdict"),
    `${why}. All this is as of ${span(performance.now() - drawnMs)} ago.`);
}

// ---- The wheels ----------------------------------------------------------

const headOf = figure =>
  titleOf(figure) + (figure.counts && !figure.worry ? " /s" : "");
const columns = () => ["active", "fired", "overdue", "stalls", "unanswered"]
  .map(name => figures.find(figure => figure.name === name));

function buildWheels() {
  const table = by("wheels").querySelector("table");
  const head = table.tHead.rows[0];
  by("wheels").hidden = frame.all.name.length === 1;
  for (const row of [head, table.tBodies[0]])
    row.replaceChildren();
  element("th", head, {scope: "col"}).textContent = "Wheel";
  for (const figure of columns())
    element("th", head, {scope: "col", title: figure.help}).textContent =
      headOf(figure);
  frame.all.name.forEach((name, k) => {
    const row = element("tr", table.tBodies[0]);
    const button = element("button", element("th", row, {scope: "row"}),
      {type: "button"});
    button.textContent = name;
    button.onclick = () => wheel = k;
    for (const figure of columns())
      element("td", row, {"data-title": headOf(figure)});
  });
}

// A figure that always grows is shown per second, any other as it is.
const cellOf = (figure, k) => figure.counts && !figure.worry
  ? rate(rateAt(history.length - 1, at => at.all[figure.name][k]))
  : show(figure, worstOf(figure.name, k));

// A wheel's name is marked if one of its figures is bad that has no column.
function drawWheels() {
  const others = figures.filter(figure => !columns().includes(figure));
  [...by("wheels").querySelector("tbody").rows].forEach((row, k) => {
    const bad = others.filter(({name}) => isBad(name, k)).map(titleOf);
    const button = row.querySelector("button");
    columns().forEach((figure, i) => {
      write(row.cells[i + 1], cellOf(figure, k));
      row.cells[i + 1].classList.toggle("bad", isBad(figure.name, k));
    });
    button.classList.toggle("bad", bad.length > 0);
    button.title = bad.length > 0 ? `Bad: ${bad.join(", ")}` : "";
    button.setAttribute("aria-pressed", k === wheel);
  });
}

// ---- Lateness ------------------------------------------------------------

// Bucket 0 is not late at all, bucket b is from 2^(b-1) ms to 2^b - 1. The axis
// has the same width for each, so a time of 1 ms and more has its logarithm.
const PLOT = {width: 480, top: 40, height: 120};
const placeOf = ms => 1 + Math.log2(ms);
const leastOf = bucket => bucket === 0 ? 0 : 2 ** (bucket - 1);

// As live_judge has it: the first bucket in which all timers are late.
const firstLate = () => Math.min(frame.lateness.length,
  Math.ceil(placeOf(2 * frame.tick_ms + 101)));

function rangeOf(bucket) {
  const from = leastOf(bucket), to = 2 ** bucket - 1;
  if (bucket === frame.lateness.length - 1)
    return `${format(from)} ms and more`;
  return (from === to ? from : format(from) + "\u2013" + format(to)) + " ms";
}

// Of so many buckets, whose heights are to be set.
function buildHistogram(count) {
  const {width, top, height} = PLOT, step = width / count, end = top + height;
  const late = firstLate() * step, tick = placeOf(frame.tick_ms) * step;
  const axis = by("axis");
  const label = (text, x, y, attributes) =>
    element("text", axis, {x, y, ...attributes}).textContent = text;
  by("bars").replaceChildren();
  axis.replaceChildren();
  for (let bucket = 0; bucket < count; bucket++) {
    const x = bucket * step, least = leastOf(bucket);
    const bar = element("g", by("bars"),
      {class: bucket < firstLate() ? "" : "bad"});
    element("title", bar);
    element("rect", bar, {x: x + step * .08, width: step * .84});
    element("text", bar, {x: x + step / 2});
    if (bucket > 1 && (count <= 14 || bucket % 3 === 0))
      label(least < 1000 ? least : span(least), x, end + 16);
  }
  label("0 ms", 18, end + 16);
  element("path", axis, {d: `M0 ${end}H${width}`});
  element("path", axis, {d: `M${tick} 16V${end}`, class: "tick"});
  label("a tick", tick, 11);
  element("rect", axis, {x: late, width: width - late, height: end});
  label("late", (late + width) / 2, 11, {class: "bad"});
}

function drawHistogram(counts) {
  const usual = frame.lateness, {width, top, height} = PLOT;
  const count = Math.min(usual.length, Math.max(firstLate(),
    usual.findLastIndex(number => number > 0)) + 1);
  if (by("bars").children.length !== count)
    buildHistogram(count);
  const shares = list => list.map(number => number / Math.max(1, sum(list)));
  const now = shares(counts), ever = shares(usual), step = width / count;
  const most = Math.max(.01, ...now, ...ever);
  const end = top + height, yOf = share => end - height * share / most;
  [...by("bars").children].forEach((bar, bucket) => {
    const [title, rect, text] = bar.children;
    const y = counts[bucket] === 0 ? end : Math.min(yOf(now[bucket]), end - 2);
    const percent = now[bucket] * 100;
    rect.setAttribute("y", y);
    rect.setAttribute("height", end - y);
    const line = yOf(ever[bucket]); // which the text should not lie on
    text.setAttribute("y", (line > y - 16 ? Math.min(line, y) : y) - 4);
    write(text, counts[bucket] === 0 ? ""
      : (percent < 1 ? "<1" : Math.round(percent)) + "\u202f%");
    write(title, `${rangeOf(bucket)} late: ` +
      `${counted(counts[bucket], "timer")}, ` +
      `${format(usual[bucket])} since the start`);
  });
  by("usual").setAttribute("d", `M0 ${end}` + ever.slice(0, count).map(
    (share, bucket) => `V${yOf(share)}H${(bucket + 1) * step}`).join(""));
}

// A figure of all time would hide what is the matter now.
function drawLateness() {
  const [first] = history;
  const counts = frame.lateness.map((count, b) => count - first.lateness[b]);
  const past = span(Math.max(1000, frame.now_ms - first.now_ms));
  write(by("tick"), time(frame.tick_ms));
  write(by("past"), `in the last ${past}`);
  drawHistogram(counts);
  drawNote(by("late"), figures.find(({place}) => place === "lateness"));
}

// ---- Frames --------------------------------------------------------------

// The figures of all wheels come as lists. The chosen wheel's own get the names
// of the lists.
const unpack = next => Object.assign(next, ...Object.keys(next.all)
  .map(name => ({[name]: next.all[name][next.wheel]})));

// A blocked loop says nothing new: its last frame is replaced.
function remember(next) {
  const {cells, figures, ...past} = next;
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

const shapeOf = ({wheel, slots, cells, tick_ms, all}) =>
  [wheel, slots, cells.length, tick_ms, all.name.length].join();

function draw(next) {
  if (next.cells.length === 0)
    return; // its loop has not counted them yet
  const isNew = !frame || shapeOf(frame) !== shapeOf(next);
  remember(next);
  frame = next;
  drawnMs = performance.now();
  if (isNew) {
    figures = next.figures;
    buildFigures();
    buildRing();
    buildWheels();
    by("bars").replaceChildren();
    document.querySelector("main").hidden = false;
  }
  document.body.className = isOld() ? "old" : "";
  drawSetup();
  drawVerdict();
  drawWheels();
  drawRing();
  drawSummary();
  drawFigures();
  drawLateness();
}

function say(state, text) {
  by("status").className = state;
  write(by("status"), text);
}

function lose(isSilent) {
  say("lost", isSilent ? "no answer" : "no connection, trying again");
  drawGone(isSilent
    ? "No answer: the server is frozen, or something blocks its loop"
    : "No connection: the server is gone");
}

async function ask() {
  try {
    const answer = await fetch(`/frame?wheel=${wheel}`,
      {signal: AbortSignal.timeout(SILENCE_MS)});
    if (answer.status === 404) {
      wheel = 0; // the server has fewer wheels now
    } else {
      const next = await answer.json();
      say("live", "live");
      draw(unpack(next));
    }
  } catch ({name}) {
    lose(name === "TimeoutError");
  }
  setTimeout(ask, INTERVAL_MS);
}

ask();
