// SPDX-License-Identifier: GPL-3.0-or-later
// The current run of each test host, and the run's phases with the current one marked.
import * as phases from "../charts/phases";
import { emptiness, id, keyed, make, setText, within } from "../dom/elements";
import { PHASES } from "../generated/names";
import { now } from "../link/clock";
import type { Band, CampaignMessage, CurrentRun, HostState } from "../link/messages";
import { duration } from "../text/format";
import * as settling from "./settling";

let hosts: HostState[] = [];
let order: readonly string[] = PHASES;
let settlingOrder: readonly string[] = [];

export function set(message: CampaignMessage): void {
  hosts = message.found ? message.hosts : [];
  order = message.found ? message.phases : PHASES;
  settlingOrder = message.found ? message.settling_phases : [];
  draw();
}

export function draw(): void {
  const place = id("hosts");
  emptiness(place, hosts.length ? null : "No run.");
  if (hosts.length) keyed(place, hosts, (host) => host.host, create, update);
}

function create(): HTMLElement {
  return make(
    "article",
    { class: "host" },
    make("p", { class: "host-head" }, make("b"), make("span", { class: "cell" }), make("span", { class: "clock" })),
    make("ol", { class: "phases" }),
    settling.create(),
    make("p", { class: "run-id" }),
  );
}

function update(element: HTMLElement, { host, done, total, run }: HostState): void {
  const say = (name: string, cell: string, clock: string, runId: string) => {
    setText(within(element, "b"), name);
    setText(within(element, ".cell"), cell);
    setText(within(element, ".clock"), clock);
    setText(within(element, ".run-id"), runId);
  };
  element.classList.toggle("waiting", !run);
  if (!run) {
    say(host, done === total ? "all runs done" : "between runs", `${done} of ${total}`, "");
    within(element, ".phases").replaceChildren();
    settling.update(within(element, ".settling"), null);
    return;
  }
  const clock = run.started_ns ? duration(now() - run.started_ns / 1e9) : "";
  say(host, run.cell, clock, `run ${run.id} · replicate ${run.replicate} · ${done + 1} of ${total}`);
  drawPhases(element, run);
}

function drawPhases(element: HTMLElement, run: CurrentRun): void {
  const steps = run.settling ? settlingOrder : order;
  const seen = new Map(phases.runBands(run.id).map((band) => [band.phase, band]));
  const current = [...seen.keys()].reduce((best, phase) => Math.max(best, steps.indexOf(phase)), -1);
  settling.update(within(element, ".settling"), run, steps[current]);
  keyed(
    within(element, ".phases"),
    steps,
    (phase) => phase,
    (phase) => make("li", {}, make("span", { class: "phase-name" }, phase), make("span", { class: "phase-time" })),
    (item, phase) => {
      const at = steps.indexOf(phase);
      const state = at < current ? "past" : at === current ? "current" : "ahead";
      item.className = `phase-${phase} ${state}`;
      if (state === "current") item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
      setText(within(item, ".phase-time"), elapsed(state, seen.get(phase), now()));
    },
  );
}

// How long a phase took, or has taken.
export function elapsed(state: "past" | "current" | "ahead", band: Band | undefined, seconds: number): string {
  if (state === "ahead") return "";
  if (state === "past" && !band?.end_ns) return "✓";
  if (!band) return "";
  const took = (band.end_ns ? band.end_ns / 1e9 : seconds) - band.start_ns / 1e9;
  return took < 10 ? Math.max(0, took).toFixed(1) + " s" : duration(took);
}
