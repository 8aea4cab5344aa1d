// SPDX-License-Identifier: GPL-3.0-or-later
// Assembles the page: passes messages to the modules that show them and frames to the windows, and
// redraws once per frame.
import "uplot/dist/uPlot.min.css";
import * as phases from "./charts/phases";
import { id, make } from "./dom/elements";
import { PHASES } from "./generated/names";
import * as clock from "./link/clock";
import type { Frame } from "./link/frames";
import type { CampaignMessage, Layout, Live, Message } from "./link/messages";
import { connect } from "./link/socket";
import "./link/stats";
import { Window } from "./link/window";
import * as ai from "./live/ai";
import * as hosts from "./live/hosts";
import * as io from "./live/io";
import * as meters from "./live/meters";
import * as power from "./live/power";
import * as queue from "./live/queue";
import * as settling from "./live/settling";
import * as header from "./shell/header";
import * as notices from "./shell/notices";

const NUMBERS_MS = 500; // figures that change faster cannot be read
let layout: Layout | null = null;
let windows: { power: Window; io: Window } | null = null;
let drawing = false;
let numbersAt = 0;

function take(message: Message): void {
  switch (message.kind) {
    case "layout":
      return takeLayout(message);
    case "campaign":
      return takeCampaign(message);
    case "live":
      return takeLive(message);
    case "notices":
      return notices.set(message.notices);
  }
}

function takeLayout(message: Layout): void {
  if (layout && layout.version !== message.version) location.reload(); // the server is another release
  const same = layout && JSON.stringify([layout.rails, layout.drives]) === JSON.stringify([message.rails, message.drives]);
  layout = message;
  windows = {
    power: new Window(message.buckets.power, message.span_seconds),
    io: new Window(message.buckets.io, message.span_seconds),
  };
  if (!same) arrange(message);
}

function takeCampaign(message: CampaignMessage): void {
  if (phases.setCampaign(message) && layout) arrange(layout);
  header.set(message);
  hosts.set(message);
  queue.set(message);
  ai.set(message);
}

function takeLive(message: Live): void {
  clock.setSlowness(message.slowness);
  phases.setBands(message.bands);
  settling.setRounds(message.rounds);
  power.setTrust(message.rails, message.powerd);
  meters.draw(message.powerd);
}

function arrange({ rails, drives, span_seconds }: Layout): void {
  power.setLayout(rails, span_seconds);
  io.setLayout(drives, rails, span_seconds);
}

function onFrame(frame: Frame): void {
  clock.hear(frame.now);
  const [powerSection, ioSection] = frame.sections;
  if (!windows || frame.layout !== layout?.layout || !powerSection || !ioSection) return;
  windows.power.apply(powerSection);
  windows.io.apply(ioSection);
  if (drawing || document.hidden) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    draw(frame.now);
  });
}

function draw(end: number): void {
  if (!windows) return;
  power.draw(windows.power, end);
  io.draw(windows.io, end);
  hosts.draw();
  header.tick();
  if (performance.now() - numbersAt < NUMBERS_MS) return;
  numbersAt = performance.now();
  power.drawNumbers(windows.power);
  io.drawNumbers(windows.io, windows.power);
}

id("phase-legend").append(
  ...PHASES.map((name) => make("span", {}, make("i", { class: "swatch phase-" + name }), name)),
);
ai.start();
connect({
  onMessage: take,
  onFrame,
  onLink(up) {
    header.link(up);
    notices.setLink(up);
  },
});
