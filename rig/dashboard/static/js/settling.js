// SPDX-License-Identifier: GPL-3.0-or-later
// A drive that is preconditioned: the current round, and the figures of the rounds so far.
import { fixed, duration, number } from "./format.js";
import { keyed, make, setText } from "./dom.js";
import { now } from "./clock.js";

const STEPS = { purge: "purging", passes: "writing the whole drive" };
let rounds = {};

export const setRounds = (byRun) => (rounds = byRun);

export function create() {
  const heads = ["round", "IOPS", "W"].map((name) => make("th", { class: "n" }, name));
  return make(
    "div",
    { class: "settling", hidden: true },
    make("p", {}),
    make("div", { class: "rounds" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}))),
  );
}

// Shows the preconditioning before `run`, whose newest step is `step`; hides it if there is none.
export function update(element, run, step) {
  const settling = run?.settling;
  element.hidden = !settling;
  if (!settling) return;
  const made = rounds[run.id] ?? [];
  const left = settling.began_ns / 1e9 + settling.at_most_seconds - now();
  const what = made.length || step === "rounds" ? round(made.length + 1, settling.at_most_rounds) : (STEPS[step] ?? "starting");
  setText(element.firstElementChild, `preconditioning · ${what} · at most ${duration(left)} left`);
  element.querySelector("table").hidden = !made.length;
  keyed(element.querySelector("tbody"), made, (one) => one.number, row, fill);
}

const round = (current, atMost) => (current > atMost ? "judging" : `round ${current} of at most ${atMost}`);

const row = () => make("tr", {}, ...["", "", ""].map(() => make("td", { class: "n" })));

function fill(line, one) {
  const [numbers, iops, watts] = line.children;
  setText(numbers, String(one.number));
  setText(iops, number(one.iops));
  setText(watts, one.watts === null ? "" : fixed(one.watts, 3));
}
