// SPDX-License-Identifier: GPL-3.0-or-later
// All runs in order, with status as symbol, word and colour, and the reason of one that is not ok.
import { id, keyed, make, setText } from "./dom.js";
import { duration, number } from "./format.js";

const SYMBOLS = {
  planned: "○", running: "▶", ok: "✓", partial: "◐", failed: "✕", lost: "⊘", refused: "!", "not-run": "–", excluded: "·",
};
let running = "";

export function set(message) {
  const runs = message.found ? message.runs : [];
  const place = id("queue");
  const manyHosts = new Set(runs.map((run) => run.host)).size > 1;
  const oneWorkload = new Set(runs.map((run) => run.workload)).size === 1;
  keyed(place, runs, (run) => run.id, create, (element, run) => update(element, run, manyHosts, oneWorkload));
  const counts = message.found ? message.counts : {};
  setText(
    id("queue-counts"),
    Object.entries(counts)
      .filter(([, count]) => count)
      .map(([status, count]) => `${SYMBOLS[status]} ${count} ${status}`)
      .join("  "),
  );
  const current = runs.find((run) => run.status === "running")?.id ?? "";
  if (current && current !== running && !place.matches(":hover, :focus-within")) {
    const row = place.querySelector(".status-running");
    place.scrollTop = row.offsetTop - place.offsetTop - place.clientHeight / 3;
  }
  running = current;
}

function create(run) {
  return make(
    "div",
    { class: "run", "data-run": run.id },
    make("span", { class: "symbol", "aria-hidden": "true" }),
    make("span", { class: "ordinal" }),
    make("span", { class: "cell" }),
    make("span", { class: "status" }),
    make("span", { class: "time" }),
    make("span", { class: "figure" }),
    make("span", { class: "reason" }),
  );
}

function update(element, run, manyHosts, oneWorkload) {
  const signature = JSON.stringify([run, manyHosts, oneWorkload]);
  if (element.rigSignature === signature) return; // most runs stay as they are
  element.rigSignature = signature;
  element.className = "run status-" + run.status;
  element.title = [run.id, run.status, run.reason].filter(Boolean).join("\n");
  const [symbol, ordinal, cell, status, time, figure, reason] = element.children;
  setText(symbol, SYMBOLS[run.status] ?? "?");
  setText(ordinal, String(run.ordinal));
  const words = [run.drive, run.filesystem, run.scheduler, run.workload];
  if (oneWorkload) words.pop(); // the AI table's caption names it
  if (run.journal) words.push("journal on " + run.journal);
  if (manyHosts) words.unshift(run.host);
  setText(cell, words.join(" / "));
  setText(status, run.status);
  const took = run.started_ns && run.ended_ns ? (run.ended_ns - run.started_ns) / 1e9 : null;
  setText(time, took === null ? "" : duration(took));
  const rate = run.status !== "ok" || run.ops_per_second == null ? "" : number(run.ops_per_second) + " ops/s";
  setText(figure, run.ops_per_joule == null ? rate : number(run.ops_per_joule) + " ops/J");
  setText(reason, run.reason);
  reason.hidden = !run.reason;
}
