// SPDX-License-Identifier: GPL-3.0-or-later
// Work per joule: file system x I/O scheduler for each drive and workload, updated as runs end.
import { id, keyed, make, setText } from "./dom.js";
import { counted, number } from "./format.js";

const UNITS = { ops: "ops/J", mb: "MB/J" };
const RATES = { ops: "ops/s", mb: "MB/s" };
const NO_SHADE = 0.5; // share of the best at and below which a cell has no shade
let metric = "ops";
let table = [];

export function start() {
  for (const button of document.querySelectorAll("[data-metric]"))
    button.addEventListener("click", () => {
      metric = button.dataset.metric;
      for (const other of document.querySelectorAll("[data-metric]"))
        other.setAttribute("aria-pressed", String(other === button));
      setText(id("ai-unit"), UNITS[metric] + " over complete runs");
      draw();
    });
}

export function set(message) {
  table = message.found ? message.table : [];
  draw();
}

function draw() {
  const place = id("ai");
  if (!table.length) {
    place.replaceChildren(make("p", { class: "empty" }, "No runs planned."));
    return;
  }
  place.querySelector(".empty")?.remove();
  keyed(place, table, blockKey, create, update);
}

const extra = (block) =>
  Object.entries(block.factors)
    .map(([name, level]) => `${name}=${level}`)
    .join(" ");
const blockKey = (block) => [block.drive, block.workload, extra(block), block.filesystems, block.schedulers].join("|");

function create(block) {
  const head = make("tr", {}, make("td"), ...block.schedulers.map((name) => make("th", { scope: "col" }, name)));
  const rows = block.filesystems.map((name) =>
    make("tr", {}, make("th", { scope: "row" }, name), ...block.schedulers.map(() => make("td", { class: "ai-cell" }))),
  );
  return make(
    "table",
    { class: "ai-block", "data-drive": block.drive, "data-workload": block.workload },
    make("caption", {}, make("b", {}, block.drive), " ", block.workload, " ", make("small", {}, extra(block)), " ", make("small", { class: "untested" })),
    make("thead", {}, head),
    make("tbody", {}, ...rows),
  );
}

function update(element, block) {
  setText(element.caption.querySelector(".untested"), block.untested);
  block.filesystems.forEach((filesystem, r) =>
    block.schedulers.forEach((scheduler, c) => {
      const td = element.tBodies[0].rows[r].cells[c + 1];
      const cell = block.cells[filesystem]?.[scheduler];
      const signature = JSON.stringify([metric, cell]);
      if (td.rigSignature === signature) return;
      td.rigSignature = signature;
      td.dataset.filesystem = filesystem;
      td.dataset.scheduler = scheduler;
      fill(td, cell, cell?.[metric]);
    }),
  );
}

function fill(td, cell, figure) {
  td.className = "ai-cell";
  td.style.removeProperty("--shade");
  if (!cell) {
    td.replaceChildren();
    td.title = "not in this campaign";
    td.classList.add("absent");
    return;
  }
  const mark = { best: "★", open: "≈" }[figure?.mark] ?? "";
  const flags = [cell.partial ? `◐${cell.partial}` : "", cell.failed ? `✕${cell.failed}` : "", cell.running ? "▶" : ""];
  const rate = figure ? null : cell.unmetered;
  const done = (figure ?? rate)?.n ?? 0;
  td.replaceChildren(
    make("span", { class: "value" }, mark, figure ? number(figure.mean) : rate?.[metric] != null ? `${number(rate[metric])} ${RATES[metric]}` : "–"),
    make("small", {}, [`n ${done}/${cell.planned}`, ...flags].filter(Boolean).join(" ")),
  );
  td.classList.toggle("best", figure?.mark === "best");
  td.classList.toggle("only-partial", Boolean(figure) && figure.n === 0);
  if (figure?.n) td.style.setProperty("--shade", Math.max(0, (figure.share - NO_SHADE) / (1 - NO_SHADE)).toFixed(3));
  const range = figure ? `${number(figure.mean)} ${UNITS[metric]}, ${number(figure.low)} to ${number(figure.high)} over ` : "";
  const energy = figure?.energy_low == null ? "" : `; by the energy interval alone ${number(figure.energy_low)} to ${number(figure.energy_high)}`;
  td.title = (rate ? "no rail, so no joules; " : "") + range + (figure && !figure.n ? "partial runs only" : `${done} of ${counted(cell.planned, "run")}`) + energy +
    (cell.partial ? `; ${cell.partial} partial` : "") + (cell.failed ? `; ${cell.failed} failed or lost` : "") +
    (cell.not_run ? `; ${cell.not_run} not run` : "");
}
