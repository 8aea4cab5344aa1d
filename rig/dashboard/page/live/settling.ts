// SPDX-License-Identifier: GPL-3.0-or-later
// A drive that is preconditioned: the current round, and the figures of the rounds so far.
import { keyed, make, setText, within } from "../dom/elements";
import type { PreconditioningPhase } from "../generated/names";
import { now } from "../link/clock";
import type { CurrentRun, Round } from "../link/messages";
import { duration, fixed, number } from "../text/format";

// The type makes sure that each step before the rounds is described.
const STEPS: Record<Exclude<PreconditioningPhase, "rounds">, string> = {
  purge: "purging",
  passes: "writing the whole drive",
};
let rounds: Record<string, Round[]> = {};

export function setRounds(byRun: Record<string, Round[]>): void {
  rounds = byRun;
}

export function create(): HTMLElement {
  const heads = ["round", "IOPS", "W"].map((name) => make("th", { class: "n", scope: "col" }, name));
  return make(
    "div",
    { class: "settling", hidden: true },
    make("p"),
    make("div", { class: "rounds", tabindex: 0, role: "region", "aria-label": "Rounds" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody"))),
  );
}

// Shows the preconditioning before `run`, whose newest step is `step`; hides it if there is none.
export function update(element: HTMLElement, run: CurrentRun | null, step?: string): void {
  const settling = run?.settling;
  element.hidden = !settling;
  if (!run || !settling) return;
  const made = rounds[run.id] ?? [];
  const left = settling.began_ns / 1e9 + settling.at_most_seconds - now();
  const what = describe(made.length, settling.at_most_rounds, step);
  setText(within(element, "p"), `preconditioning · ${what} · at most ${duration(left)} left`);
  within(element, "table").hidden = !made.length;
  keyed(within(element, "tbody"), made, (one) => one.number, row, fill);
}

// What is going on after `made` rounds of at most `most`.
export function describe(made: number, most: number, step: string | undefined): string {
  if (!made && step !== "rounds") return isStep(step) ? STEPS[step] : "starting";
  return made + 1 > most ? "judging" : `round ${made + 1} of at most ${most}`;
}

const isStep = (step: string | undefined): step is keyof typeof STEPS => step !== undefined && Object.hasOwn(STEPS, step);

const row = () => make("tr", {}, ...["", "", ""].map(() => make("td", { class: "n" })));

function fill(line: HTMLElement, one: Round): void {
  [String(one.number), number(one.iops), one.watts === null ? "" : fixed(one.watts, 3)].forEach((text, i) =>
    setText(line.children[i]!, text),
  );
}
