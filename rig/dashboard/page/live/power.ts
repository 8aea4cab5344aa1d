// SPDX-License-Identifier: GPL-3.0-or-later
// Watts per rail: a card per drive, with the state of the meter next to each value.
import { findGaps, hatch } from "../charts/gaps";
import * as phases from "../charts/phases";
import { railBand, railSeries } from "../charts/rails";
import { Strip } from "../charts/strip";
import { emptiness, id, make, setText, within } from "../dom/elements";
import type { DriveName, Meter, PowerStatus, RailName, Trust } from "../link/messages";
import type { Row, Window } from "../link/window";
import { fixed } from "../text/format";
import * as latency from "./latency";
import * as samples from "./samples";
import { note } from "./trust";

interface Rail extends RailName {
  channel: number;
}

interface Drive extends DriveName {
  key: string;
  rails: Rail[];
}

interface RailRow {
  element: HTMLElement;
  value: HTMLElement;
  volts: HTMLElement;
  note: HTMLElement;
}

interface Card extends Drive {
  element: HTMLElement;
  total: HTMLElement;
  rows: RailRow[];
  strip: Strip | null;
  traces: { times: number[]; means: Row[] };
}

const GAP_SECONDS = 1; // meters flush twice a second and more: a longer stretch without a value is a gap
let cards = new Map<string, Card>(); // by "host/drive"
let trust: Trust[] = []; // of each rail, from the newest live message
let meters = new Map<string, Meter>();

export function setLayout(rails: RailName[], span: number): void {
  const drives = byDrive(rails).sort(phases.inOrder);
  const manyHosts = new Set(rails.map((rail) => rail.host)).size > 1;
  cards = new Map(drives.map((drive) => [drive.key, card(drive, manyHosts)]));
  id("power").replaceChildren(...[...cards.values()].map((shown) => shown.element));
  emptiness(id("power"), drives.length ? null : "No power reading in the last 60 s.");
  for (const shown of cards.values()) shown.strip = strip(shown, span); // uPlot needs its element's width
}

export function byDrive(rails: RailName[]): Drive[] {
  const drives = new Map<string, Drive>();
  rails.forEach((rail, channel) => {
    const key = rail.host + "/" + rail.drive;
    const drive = drives.get(key) ?? { key, host: rail.host, drive: rail.drive, rails: [] };
    drive.rails.push({ ...rail, channel });
    drives.set(key, drive);
  });
  for (const drive of drives.values())
    drive.rails.sort((a, b) => a.rail.localeCompare(b.rail, undefined, { numeric: true }));
  return [...drives.values()];
}

function card(drive: Drive, manyHosts: boolean): Card {
  const total = make("output", { class: "total" }, "–");
  const rows = drive.rails.map((rail, index) => {
    const value = make("output", { class: "watts" }, "–");
    const volts = make("span", { class: "volts" });
    const words = make("span", { class: "trust" });
    const swatch = make("i", { class: "swatch rail-" + (index % 4) });
    const name = make("span", { class: "rail" }, rail.rail);
    return { value, volts, note: words, element: make("li", {}, swatch, name, value, volts, words) };
  });
  const element = make(
    "article",
    { class: "card", "data-drive": drive.drive, "data-host": drive.host },
    make("h3", {}, drive.drive, make("small", {}, manyHosts ? drive.host : ""), total, make("span", { class: "unit" }, "W"), samples.button(drive.host, drive.drive)),
    make("div", { class: "plot" }),
    make("ul", {}, ...rows.map((row) => row.element)),
    make("p", { class: "latency" }),
    make("p", { class: "health" }, "temperature, power state: no report yet"),
  );
  return { ...drive, element, total, rows, strip: null, traces: { times: [], means: [] } };
}

function strip(shown: Card, span: number): Strip {
  const shade = phases.shade(() => phases.driveBands(shown.host, shown.drive));
  return new Strip({
    element: shown.element.querySelector<HTMLElement>(".plot")!,
    series: () => shown.rails.flatMap((_, index) => railSeries(index)),
    bands: () => shown.rails.map((_, index) => railBand(index)),
    span,
    behind: (u) => {
      shade(u);
      hatch(u, findGaps(shown.traces.times, shown.traces.means, GAP_SECONDS));
    },
  });
}

// The button that shows volts and amps next to the watts.
export function start(): void {
  const button = id("volts-switch");
  button.addEventListener("click", () => {
    const on = id("power").classList.toggle("with-volts");
    button.setAttribute("aria-pressed", String(on));
  });
}

// Of a rail's newest point, which is seconds old; none where the rail has no reading now.
export const voltsAndAmps = ({ volts, amps }: Trust): string =>
  volts == null || amps == null ? "–" : `${fixed(volts, 3)} V · ${fixed(amps, 3)} A`;

export function setTrust(rails: Trust[], status: PowerStatus): void {
  trust = rails;
  meters = new Map(status.meters.map((meter) => [meter.name, meter]));
}

// Watts of a drive, the sum of its rails over the last second; null unless all of them are being
// read.
export function driveWatts(window: Window, host: string, drive: string): number | null {
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

// Seconds of gaps in what is drawn, of all drives.
export function gapSeconds(): number {
  const gaps = [...cards.values()].flatMap(({ traces }) => findGaps(traces.times, traces.means, GAP_SECONDS));
  return gaps.reduce((sum, { start, end }) => sum + end - start, 0);
}

export function draw(window: Window, end: number): void {
  for (const shown of cards.values()) {
    const rails = shown.rails.map(({ channel }) => window.channels[channel]).filter((columns) => columns !== undefined);
    if (rails.length < shown.rails.length) return;
    shown.traces = { times: window.times, means: rails.map((columns) => columns[0]!) };
    shown.strip?.show([window.times, ...rails.flatMap((columns) => [columns[2]!, columns[1]!, columns[0]!])], end);
  }
}

export function drawNumbers(window: Window, io: Window, channels: ReadonlyMap<string, number>): void {
  for (const { key, element, host, drive, total, rows, rails } of cards.values()) {
    setText(total, fixed(driveWatts(window, host, drive), 2));
    rails.forEach((rail, index) => {
      const row = rows[index]!;
      const watts = window.recent(rail.channel, 0);
      setText(row.value, fixed(watts, 3));
      setText(row.volts, voltsAndAmps(watts === null ? {} : (trust[rail.channel] ?? {})));
      const { kind, text, title } = note(rail.meter, watts, trust[rail.channel] ?? {}, meters.get(rail.meter));
      setText(row.note, text);
      row.note.title = title;
      row.element.className = kind;
    });
    latency.show(within(element, ".latency"), io, channels.get(key) ?? null, host, drive);
    element.classList.toggle("busy", phases.driveBands(host, drive).some((band) => band.end_ns === null));
  }
}
