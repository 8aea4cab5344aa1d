// SPDX-License-Identifier: GPL-3.0-or-later
// Watts per rail: a card per drive, with the state of the meter next to each value.
import { Strip } from "./chart.js";
import { id, make, setText } from "./dom.js";
import { fixed, percent, shortSeconds } from "./format.js";
import { railColour } from "./theme.js";
import * as phases from "./phases.js";

let cards = new Map(); // "host/drive" -> {element, strip, rails: [{channel, ...}]}
let trust = []; // of each rail, from the newest live message
let meters = new Map();

export function setLayout(rails, span) {
  const drives = new Map();
  rails.forEach((rail, channel) => {
    const key = rail.host + "/" + rail.drive;
    if (!drives.has(key)) drives.set(key, { key, host: rail.host, drive: rail.drive, rails: [] });
    drives.get(key).rails.push({ ...rail, channel });
  });
  const list = [...drives.values()].sort(phases.inOrder);
  for (const drive of list)
    drive.rails.sort((a, b) => a.rail.localeCompare(b.rail, undefined, { numeric: true }));
  const manyHosts = new Set(rails.map((rail) => rail.host)).size > 1;
  cards = new Map();
  id("power").replaceChildren(...list.map((drive) => card(drive, span, manyHosts)));
  if (!list.length)
    id("power").replaceChildren(make("p", { class: "empty" }, "No power reading in the last 60 s."));
}

function card(drive, span, manyHosts) {
  const plot = make("div", { class: "plot" });
  const total = make("output", { class: "total" }, "–");
  const rows = drive.rails.map((rail, index) => {
    const value = make("output", { class: "watts" }, "–");
    const note = make("span", { class: "trust" });
    const swatch = make("i", { class: "swatch rail-" + (index % 4) });
    const name = make("span", { class: "rail" }, rail.rail);
    return { value, note, element: make("li", {}, swatch, name, value, note) };
  });
  const element = make(
    "article",
    { class: "card", "data-drive": drive.drive, "data-host": drive.host },
    make("h3", {}, drive.drive, make("small", {}, manyHosts ? drive.host : ""), total, make("span", { class: "unit" }, "W")),
    plot,
    make("ul", {}, ...rows.map((row) => row.element)),
  );
  // Columns of a rail: greatest, least, mean; the band is drawn between the first two.
  const series = () =>
    drive.rails.flatMap((_, index) => [
      { stroke: "transparent", points: { show: false } },
      { stroke: "transparent", points: { show: false } },
      { stroke: railColour(index), width: 1.25, points: { show: false } },
    ]);
  const bands = () =>
    drive.rails.map((_, index) => ({ series: [3 * index + 1, 3 * index + 2], fill: railColour(index) + "38" }));
  const options = {
    element: plot,
    series,
    bands,
    span,
    behind: phases.shade(() => phases.driveBands(drive.host, drive.drive)),
  };
  // uPlot needs the element's width: the card must be in the page first.
  queueMicrotask(() => (cards.get(drive.key).strip = new Strip(options)));
  cards.set(drive.key, { element, total, rows, rails: drive.rails, strip: null });
  return element;
}

export function setTrust(rails, status) {
  trust = rails;
  meters = new Map(status.meters.map((meter) => [meter.name, meter]));
}

// Watts of a drive, the sum of its rails over the last second; null unless all of them are being
// read.
export function driveWatts(window, host, drive) {
  const shown = cards.get(host + "/" + drive);
  if (!shown) return null;
  let sum = 0;
  for (const { channel } of shown.rails) {
    const watts = window.recent(channel, 0);
    if (watts === null) return null;
    sum += watts;
  }
  return sum;
}

export function draw(window, end) {
  for (const { strip, rails } of cards.values()) {
    if (!strip) continue;
    const data = [window.times];
    for (const { channel } of rails) {
      const columns = window.channels[channel];
      if (!columns) return;
      data.push(columns[2], columns[1], columns[0]);
    }
    strip.show(data, end);
  }
}

export function drawNumbers(window) {
  for (const [key, { element, total, rows, rails }] of cards) {
    const [host, drive] = key.split("/");
    setText(total, fixed(driveWatts(window, host, drive), 2));
    rails.forEach((rail, index) => {
      const watts = window.recent(rail.channel, 0);
      setText(rows[index].value, fixed(watts, 3));
      const [kind, text, title] = note(rail, watts);
      setText(rows[index].note, text);
      rows[index].note.title = title;
      rows[index].element.className = kind;
    });
    element.classList.toggle("busy", phases.driveBands(host, drive).some((band) => band.end_ns === null));
  }
}

// How far a rail's value can be trusted: [class, text, long text].
function note(rail, watts) {
  const known = trust[rail.channel] || {};
  const meter = meters.get(rail.meter);
  const long =
    `meter ${rail.meter}: ${meter ? meter.state : "state unknown"}; lost ${percent(known.lost_percent)} of samples; ` +
    `gaps ${shortSeconds(known.gap_seconds)}; clock residual ${shortSeconds(known.clock_residual_seconds)}`;
  if (meter && meter.state !== "streaming")
    return ["bad", `✕ ${rail.meter} ${meter.state}${meter.reason ? ": " + meter.reason : ""}`, long];
  if (watts === null)
    return ["bad", `✕ ${rail.meter}: no reading${known.age_seconds ? " for " + Math.round(known.age_seconds) + " s" : ""}`, long];
  const lossy = known.lost_percent > 0 || known.gap_seconds > 0;
  const words = `${lossy ? "▲" : "●"} lost ${percent(known.lost_percent)} · gap ${shortSeconds(known.gap_seconds)} · ±${shortSeconds(known.clock_residual_seconds === null || known.clock_residual_seconds === undefined ? null : Math.abs(known.clock_residual_seconds))}`;
  return [lossy ? "warn" : "good", words, long];
}
