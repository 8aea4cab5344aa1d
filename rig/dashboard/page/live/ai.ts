// SPDX-License-Identifier: GPL-3.0-or-later
// Work per joule: file system x I/O scheduler for each drive and workload, updated as runs end.
import { changed, emptiness, id, keyed, make, setText, within } from "../dom/elements";
import type { Block, CampaignMessage, Cell, Figure, Metric } from "../link/messages";
import { counted, number } from "../text/format";

const UNITS: Record<Metric, string> = { ops: "ops/J", mb: "MB/J" };
const RATES: Record<Metric, string> = { ops: "ops/s", mb: "MB/s" };
const MARKS: Record<Figure["mark"], string> = { best: "★", open: "≈", "": "" };
const NO_SHADE = 0.5; // share of the best at and below which a cell has no shade
let metric: Metric = "ops";
let table: Block[] = [];

export function start(): void {
  const buttons = [...document.querySelectorAll<HTMLButtonElement>("[data-metric]")];
  for (const button of buttons)
    button.addEventListener("click", () => {
      metric = button.dataset.metric as Metric;
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      setText(id("ai-unit"), UNITS[metric] + " over complete runs");
      draw();
    });
}

export function set(message: CampaignMessage): void {
  table = message.found ? message.table : [];
  draw();
}

function draw(): void {
  const place = id("ai");
  emptiness(place, table.length ? null : "No runs planned.");
  if (table.length) keyed(place, table, blockKey, create, update);
}

export const factorsText = (factors: Record<string, unknown>): string =>
  Object.entries(factors)
    .map(([name, level]) => `${name}=${String(level)}`)
    .join(" ");
const blockKey = (block: Block) =>
  [block.drive, block.workload, factorsText(block.factors), block.filesystems, block.schedulers].join("|");

function create(block: Block): HTMLTableElement {
  const heads = block.schedulers.map((name) => make("th", { scope: "col" }, name));
  const rows = block.filesystems.map((name) =>
    make("tr", {}, make("th", { scope: "row" }, name), ...block.schedulers.map(() => make("td", { class: "ai-cell" }))),
  );
  return make(
    "table",
    { class: "ai-block", "data-drive": block.drive, "data-workload": block.workload },
    make("caption", {}, make("b", {}, block.drive), " ", block.workload, " ", make("small", {}, factorsText(block.factors)), " ", make("small", { class: "untested" })),
    make("thead", {}, make("tr", {}, make("td"), ...heads)),
    make("tbody", {}, ...rows),
  );
}

function update(element: HTMLTableElement, block: Block): void {
  setText(within(element, ".untested"), block.untested);
  const cells = element.querySelectorAll<HTMLElement>(".ai-cell");
  block.filesystems.forEach((filesystem, r) =>
    block.schedulers.forEach((scheduler, c) => {
      const td = cells[r * block.schedulers.length + c]!;
      const cell = block.cells[filesystem]?.[scheduler];
      if (!changed(td, [metric, cell])) return;
      td.dataset.filesystem = filesystem;
      td.dataset.scheduler = scheduler;
      fillCell(td, cell, metric);
    }),
  );
}

export function fillCell(td: HTMLElement, cell: Cell | undefined, metric: Metric): void {
  td.className = "ai-cell";
  td.style.removeProperty("--shade");
  if (!cell) {
    td.replaceChildren();
    td.title = "not in this campaign";
    td.classList.add("absent");
    return;
  }
  const figure = cell[metric];
  const rate = figure ? undefined : cell.unmetered;
  const done = (figure ?? rate)?.n ?? 0;
  const flags = [cell.partial ? `◐${cell.partial}` : "", cell.failed ? `✕${cell.failed}` : "", cell.running ? "▶" : ""];
  const perSecond = rate?.[metric];
  const value = figure ? number(figure.mean) : perSecond === undefined ? "–" : `${number(perSecond)} ${RATES[metric]}`;
  td.replaceChildren(
    make("span", { class: "value" }, MARKS[figure?.mark ?? ""], value),
    make("small", {}, [`n ${done}/${cell.planned}`, ...flags].filter(Boolean).join(" ")),
  );
  td.classList.toggle("best", figure?.mark === "best");
  td.classList.toggle("only-partial", figure?.n === 0);
  if (figure?.n) td.style.setProperty("--shade", Math.max(0, (figure.share - NO_SHADE) / (1 - NO_SHADE)).toFixed(3));
  td.title = describeCell(cell, metric);
}

export function describeCell(cell: Cell, metric: Metric): string {
  const figure = cell[metric];
  const rate = figure ? undefined : cell.unmetered;
  const done = (figure ?? rate)?.n ?? 0;
  const range = figure ? `${number(figure.mean)} ${UNITS[metric]}, ${number(figure.low)} to ${number(figure.high)} over ` : "";
  const runs = figure && !figure.n ? "partial runs only" : `${done} of ${counted(cell.planned, "run")}`;
  return [
    (rate ? "no rail, so no joules; " : "") + range + runs,
    figure?.energy_low == null ? "" : `by the energy interval alone ${number(figure.energy_low)} to ${number(figure.energy_high)}`,
    cell.partial ? `${cell.partial} partial` : "",
    cell.failed ? `${cell.failed} failed or lost` : "",
    cell.not_run ? `${cell.not_run} not run` : "",
  ]
    .filter(Boolean)
    .join("; ");
}
