// SPDX-License-Identifier: GPL-3.0-or-later
// The current run of each test host, and the run's phases with the current one marked.
import { id, keyed, make, setText } from "./dom.js";
import { duration } from "./format.js";
import { now } from "./clock.js";
import { PHASES } from "./names.js";
import * as phases from "./phases.js";
import * as settling from "./settling.js";

let hosts = [];
let order = PHASES;
let settlingOrder = [];

export function set(message) {
  hosts = message.found ? message.hosts : [];
  order = message.found ? message.phases : PHASES;
  settlingOrder = message.found ? message.settling_phases : [];
  draw();
}

export function draw() {
  const place = id("hosts");
  if (!hosts.length) {
    if (!place.querySelector(".empty")) place.replaceChildren(make("p", { class: "empty" }, "No run."));
    return;
  }
  place.querySelector(".empty")?.remove();
  keyed(place, hosts, (host) => host.host, create, update);
}

function create() {
  return make(
    "article",
    { class: "host" },
    make("p", { class: "host-head" }, make("b"), make("span", { class: "cell" }), make("span", { class: "clock" })),
    make("ol", { class: "phases" }),
    settling.create(),
    make("p", { class: "run-id" }),
  );
}

function update(element, host) {
  const [name, cell, clock] = element.firstElementChild.children;
  setText(name, host.host);
  const run = host.run;
  element.classList.toggle("waiting", !run);
  if (!run) {
    setText(cell, host.done === host.total ? "all runs done" : "between runs");
    setText(clock, `${host.done} of ${host.total}`);
    element.querySelector(".phases").replaceChildren();
    setText(element.querySelector(".run-id"), "");
    settling.update(element.querySelector(".settling"), null);
    return;
  }
  setText(cell, run.cell);
  setText(clock, run.started_ns ? duration(now() - run.started_ns / 1e9) : "");
  setText(element.querySelector(".run-id"), `run ${run.id} · replicate ${run.replicate} · ${host.done + 1} of ${host.total}`);
  const steps = run.settling ? settlingOrder : order;
  const seen = new Map(phases.runBands(run.id).map((band) => [band.phase, band]));
  const current = [...seen.keys()].reduce((best, phase) => Math.max(best, steps.indexOf(phase)), -1);
  settling.update(element.querySelector(".settling"), run, steps[current]);
  keyed(
    element.querySelector(".phases"),
    steps,
    (phase) => phase,
    (phase) => make("li", {}, make("span", { class: "phase-name" }, phase), make("span", { class: "phase-time" })),
    (item, phase) => {
      const at = steps.indexOf(phase);
      const state = at < current ? "past" : at === current ? "current" : "ahead";
      item.className = `phase-${phase} ${state}`;
      if (state === "current") item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
      setText(item.lastElementChild, elapsed(state, seen.get(phase)));
    },
  );
}

function elapsed(state, band) {
  if (state === "ahead") return "";
  const start = band?.start_ns;
  if (!start) return state === "past" ? "✓" : "";
  const seconds = (band?.end_ns ? band.end_ns / 1e9 : state === "current" ? now() : start / 1e9) - start / 1e9;
  if (state === "past" && !band?.end_ns) return "✓";
  return seconds < 10 ? Math.max(0, seconds).toFixed(1) + " s" : duration(seconds);
}
