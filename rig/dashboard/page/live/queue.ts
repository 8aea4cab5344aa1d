// SPDX-License-Identifier: GPL-3.0-or-later
// All runs in order, with status as symbol, word and colour, and the reason of one that is not ok.
import { changed, id, keyed, make, setText } from "../dom/elements";
import type { Status } from "../generated/names";
import type { CampaignMessage, Run } from "../link/messages";
import { duration, number } from "../text/format";

export const SYMBOLS: Record<Status, string> = {
  planned: "○",
  running: "▶",
  ok: "✓",
  partial: "◐",
  failed: "✕",
  lost: "⊘",
  refused: "!",
  "not-run": "–",
  excluded: "·",
};
let running = "";

export function set(message: CampaignMessage): void {
  const runs = message.found ? message.runs : [];
  const place = id("queue");
  const shown = { hosts: distinct(runs, "host") > 1, workloads: distinct(runs, "workload") > 1 };
  keyed(place, runs, (run) => run.id, create, (element, run) => update(element, run, shown));
  setText(id("queue-counts"), message.found ? countsText(message.counts) : "");
  const current = runs.find((run) => run.status === "running")?.id ?? "";
  const row = place.querySelector<HTMLElement>(".status-running");
  if (row && current !== running && !place.matches(":hover, :focus-within"))
    place.scrollTop = row.offsetTop - place.offsetTop - place.clientHeight / 3;
  running = current;
}

const distinct = (runs: Run[], key: "host" | "workload") => new Set(runs.map((run) => run[key])).size;

export const countsText = (counts: Partial<Record<Status, number>>): string =>
  (Object.keys(SYMBOLS) as Status[])
    .filter((status) => counts[status])
    .map((status) => `${SYMBOLS[status]} ${counts[status]} ${status}`)
    .join("  ");

function create(run: Run): HTMLElement {
  return make(
    "div",
    { class: "run", "data-run": run.id },
    make("span", { class: "symbol", "aria-hidden": "true" }),
    ...["ordinal", "cell", "status", "time", "figure", "reason"].map((name) => make("span", { class: name })),
  );
}

interface Shown {
  hosts: boolean; // they differ
  workloads: boolean; // they differ: else the AI table's caption names it
}

function update(element: HTMLElement, run: Run, shown: Shown): void {
  if (!changed(element, [run, shown])) return; // most runs stay as they are
  element.className = "run status-" + run.status;
  element.title = [run.id, run.status, run.reason].filter(Boolean).join("\n");
  [SYMBOLS[run.status] ?? "?", String(run.ordinal), cellText(run, shown), run.status, took(run), figure(run), run.reason].forEach(
    (text, i) => setText(element.children[i]!, text),
  );
  (element.lastElementChild as HTMLElement).hidden = !run.reason;
}

export function cellText(run: Run, shown: Shown): string {
  const words = [run.drive, run.filesystem, run.scheduler];
  if (shown.hosts) words.unshift(run.host);
  if (shown.workloads) words.push(run.workload);
  if (run.journal) words.push("journal on " + run.journal);
  return words.join(" / ");
}

export const took = ({ started_ns, ended_ns }: Pick<Run, "started_ns" | "ended_ns">): string =>
  started_ns && ended_ns ? duration((ended_ns - started_ns) / 1e9) : "";

export function figure({ status, ops_per_joule, ops_per_second }: Run): string {
  if (ops_per_joule != null) return number(ops_per_joule) + " ops/J";
  return status === "ok" && ops_per_second != null ? number(ops_per_second) + " ops/s" : "";
}
