// SPDX-License-Identifier: GPL-3.0-or-later
// The last minute: what each drive draws and does now, and how the campaign stands.
import { longView, type LongView } from "../charts/longview";
import { id, make } from "../dom/elements";
import { PHASES } from "../generated/names";
import type { Frame } from "../link/frames";
import type { CampaignMessage, Layout, Live } from "../link/messages";
import { stats } from "../link/stats";
import { Window } from "../link/window";
import * as ai from "./ai";
import * as health from "./health";
import * as hosts from "./hosts";
import * as io from "./io";
import * as latency from "./latency";
import * as meters from "./meters";
import * as power from "./power";
import * as queue from "./queue";
import * as samples from "./samples";

const NUMBERS_MS = 500; // figures that change faster cannot be read
let layout: Layout | null = null;
let windows: { power: Window; io: Window } | null = null;
let numbersAt = 0;
let long: LongView;

export function start(): void {
  id("phase-legend").append(
    ...PHASES.map((name) => make("span", {}, make("i", { class: "swatch phase-" + name }), name)),
  );
  ai.start();
  power.start();
  samples.start();
  health.start();
  long = longView();
}

export function onLayout(message: Layout): void {
  const same = layout && JSON.stringify([layout.rails, layout.drives]) === JSON.stringify([message.rails, message.drives]);
  layout = message;
  windows = {
    power: new Window(message.buckets.power, message.span_seconds),
    io: new Window(message.buckets.io, message.span_seconds),
  };
  if (!same) arrange(message);
}

function arrange({ rails, drives, span_seconds }: Layout): void {
  long.setDrives([...rails, ...drives]);
  power.setLayout(rails, span_seconds);
  io.setLayout(drives, rails, span_seconds);
  health.draw();
}

export function onCampaign(message: CampaignMessage, reordered: boolean): void {
  if (reordered && layout) arrange(layout);
  hosts.set(message);
  queue.set(message);
  ai.set(message);
}

export function onLive(message: Live): void {
  power.setTrust(message.rails, message.powerd);
  latency.setLoads(message.loads);
  meters.draw(message.powerd);
}

export function onFrame(frame: Frame): void {
  const [powerSection, ioSection] = frame.sections;
  if (!windows || frame.layout !== layout?.layout || !powerSection || !ioSection) return;
  windows.power.apply(powerSection);
  windows.io.apply(ioSection);
}

export function draw(end: number): void {
  if (!windows) return;
  power.draw(windows.power, end);
  stats.drawn_until = windows.power.completeUntil();
  io.draw(windows.io, end);
  hosts.draw();
  if (performance.now() - numbersAt < NUMBERS_MS) return;
  numbersAt = performance.now();
  power.drawNumbers(windows.power, windows.io, io.channels());
  stats.gap_seconds = power.gapSeconds();
  io.drawNumbers(windows.io, windows.power);
}
