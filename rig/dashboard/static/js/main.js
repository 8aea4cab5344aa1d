// SPDX-License-Identifier: GPL-3.0-or-later
// Assembles the page: passes messages to the modules that show them and frames to the windows, and
// redraws once per frame.
import { PHASES } from "./names.js";
import { connect } from "./socket.js";
import { stats } from "./stats.js";
import { Window } from "./window.js";
import { id, make } from "./dom.js";
import * as clock from "./clock.js";
import * as phases from "./phases.js";
import * as header from "./header.js";
import * as hosts from "./hosts.js";
import * as settling from "./settling.js";
import * as notices from "./notices.js";
import * as power from "./power.js";
import * as io from "./io.js";
import * as queue from "./queue.js";
import * as ai from "./ai.js";
import * as meters from "./meters.js";

const NUMBERS_MS = 500; // figures that change faster cannot be read
let layout = null;
let windows = null;
let drawing = false;
let numbersAt = 0;

const take = {
  layout(message) {
    if (layout && layout.version !== message.version) location.reload(); // the server is another release
    const same = layout && JSON.stringify([layout.rails, layout.drives]) === JSON.stringify([message.rails, message.drives]);
    layout = message;
    windows = {
      power: new Window(message.buckets.power, message.span_seconds),
      io: new Window(message.buckets.io, message.span_seconds),
    };
    if (!same) arrange();
  },
  campaign(message) {
    if (phases.setCampaign(message) && layout) arrange();
    header.set(message);
    hosts.set(message);
    queue.set(message);
    ai.set(message);
  },
  live(message) {
    clock.setSlowness(message.slowness);
    phases.setBands(message.bands);
    settling.setRounds(message.rounds);
    power.setTrust(message.rails, message.powerd);
    meters.draw(message.powerd);
  },
  notices(message) {
    notices.set(message);
    notices.draw();
  },
};

function arrange() {
  power.setLayout(layout.rails, layout.span_seconds);
  io.setLayout(layout.drives, layout.rails, layout.span_seconds);
}

function onFrame(frame) {
  clock.hear(frame.now);
  if (!layout || frame.layout !== layout.layout) return;
  windows.power.apply(frame.sections[0]);
  windows.io.apply(frame.sections[1]);
  if (drawing || document.hidden) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    draw(frame.now);
  });
}

function draw(end) {
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
  onMessage: (message) => take[message.kind]?.(message),
  onFrame,
  onLink(up) {
    header.link(up);
    notices.setLink(up);
    notices.draw();
  },
});
export { stats };
