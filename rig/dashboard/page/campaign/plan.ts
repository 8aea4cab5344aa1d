// SPDX-License-Identifier: GPL-3.0-or-later
// The plan as a grid, file system x scheduler, for each drive and workload: each cell with its AI
// and interval as they come, its replicates, and why a race left it out.
import { changed, emptiness, id, keyed, make, setText, within } from "../dom/elements";
import type { PlannedCell, Replicate } from "../link/replies";
import { factorsText } from "../live/ai";
import { SYMBOLS } from "../live/queue";
import { counted, number, percent, shortSeconds } from "../text/format";

export interface Grid {
  key: string;
  drive: string;
  workload: string;
  factors: string;
  untested: string;
  filesystems: string[];
  schedulers: string[];
  cells: Map<string, PlannedCell>; // by "filesystem|scheduler"
}

export function grids(cells: readonly PlannedCell[]): Grid[] {
  const found = new Map<string, Grid>();
  for (const cell of cells) {
    const factors = factorsText(cell.factors);
    const key = [cell.drive, cell.workload, factors].join("|");
    const grid: Grid = found.get(key) ?? {
      key,
      drive: cell.drive,
      workload: cell.workload,
      factors,
      untested: cell.untested,
      filesystems: [],
      schedulers: [],
      cells: new Map(),
    };
    found.set(key, grid);
    if (!grid.filesystems.includes(cell.filesystem)) grid.filesystems.push(cell.filesystem);
    if (!grid.schedulers.includes(cell.scheduler)) grid.schedulers.push(cell.scheduler);
    grid.cells.set(`${cell.filesystem}|${cell.scheduler}`, cell);
  }
  for (const grid of found.values()) {
    grid.filesystems.sort();
    grid.schedulers.sort();
  }
  return [...found.values()];
}

export function show(cells: readonly PlannedCell[]): void {
  const place = id("plan");
  emptiness(place, cells.length ? null : "No runs planned.");
  if (!cells.length) return;
  keyed(
    place,
    grids(cells),
    ({ key, filesystems, schedulers }) => [key, filesystems, schedulers].join("|"),
    (grid) =>
      make(
        "div",
        { class: "sideways", tabindex: "0", role: "region", "aria-label": `${grid.drive} ${grid.workload}` },
        make(
          "table",
          { class: "plan" },
          make("caption", {}, make("b", {}, grid.drive), ` ${grid.workload} ${grid.factors} `, make("small", { class: "untested" })),
          make("thead", {}, make("tr", {}, make("td"), ...grid.schedulers.map((name) => make("th", { scope: "col" }, name)))),
          make("tbody", {}, ...grid.filesystems.map((name) => make("tr", {}, make("th", { scope: "row" }, name), ...grid.schedulers.map(() => make("td"))))),
        ),
      ),
    (element, grid) => {
      setText(within(element, ".untested"), [grid.untested, quiescenceMissing([...grid.cells.values()])].filter(Boolean).join("; "));
      const places = element.querySelectorAll<HTMLElement>("tbody td");
      grid.filesystems.forEach((filesystem, r) =>
        grid.schedulers.forEach((scheduler, c) => {
          const cell = grid.cells.get(`${filesystem}|${scheduler}`);
          const td = places[r * grid.schedulers.length + c]!;
          if (changed(td, cell ?? null)) fill(td, cell);
        }),
      );
    },
  );
}

export function fill(td: HTMLElement, cell: PlannedCell | undefined): void {
  td.className = "";
  if (!cell) {
    td.replaceChildren(make("span", { class: "unseen" }, "not in this campaign"));
    td.className = "absent";
    return;
  }
  const ai = cell.ai.ops;
  const quiet = cell.to_quiescence;
  td.classList.toggle("best", ai?.mark === "best");
  td.classList.toggle("dropped", cell.dropped !== null);
  td.replaceChildren(
    make("span", { class: "value" }, aiText(cell)),
    ...(ai ? [make("small", {}, intervalText(cell))] : []),
    ...(quiet?.ops_per_joule == null ? [] : [make("small", { class: "quiescence", title: quiet.why }, quiescenceText(quiet.ops_per_joule, quiet))]),
    make("span", { class: "replicates" }, ...cell.runs.map(replicate)),
    ...(cell.dropped ? [make("small", { class: "reason" }, `▽ left out by ${cell.dropped.by}: ${cell.dropped.reason}`)] : []),
  );
}

export function aiText({ ai: { ops }, unmetered }: PlannedCell): string {
  if (ops) return `${{ best: "★ ", open: "≈ ", "": "" }[ops.mark]}${number(ops.mean)} ops/J`;
  return unmetered?.ops === undefined ? "–" : `${number(unmetered.ops)} ops/s, no rail`;
}

export function intervalText({ ai: { ops } }: PlannedCell): string {
  if (!ops) return "";
  if (!ops.n) return "partial runs only";
  return ops.interval
    ? `${number(ops.interval.low)} to ${number(ops.interval.high)}, n ${ops.n}`
    : `n ${ops.n}: too few for an interval`;
}

// AI with what the drive drew above idle after the load. Where power did not come back to idle
// within the tail, more than was measured may have followed, so that it is at most that.
export function quiescenceText(value: number, { runs, settled }: { runs: number; settled: number }): string {
  const all = settled === runs;
  return `${all ? "" : "≤ "}${number(value)} to quiescence` + (all ? "" : `, ${settled} of ${runs} back at idle`);
}

// Why no cell of several has it; said once, and not at all where none has an AI either.
export function quiescenceMissing(cells: readonly Pick<PlannedCell, "to_quiescence">[]): string {
  const found = cells.flatMap(({ to_quiescence }) => to_quiescence ?? []);
  if (!found.length || found.some(({ ops_per_joule }) => ops_per_joule !== null)) return "";
  return `AI to quiescence ${found[0]!.why || "not known"}`;
}

function replicate(run: Replicate): HTMLElement {
  const words = describeRun(run);
  const element = make("span", { class: "replicate status-" + run.status, title: words, role: "img", "aria-label": words }, SYMBOLS[run.status] ?? "?");
  if (run.status === "ok" && run.steady === false) element.classList.add("unsteady");
  return element;
}

export function describeRun(run: Replicate): string {
  return [
    `run ${run.ordinal}, replicate ${run.replicate}: ${run.status}`,
    run.reason,
    run.ops_per_joule === null ? "" : `${number(run.ops_per_joule)} ops/J`,
    run.joules === null ? "" : `${number(run.joules)} J` + (run.low === null || run.high === null ? ", bounds unknown" : ` in [${number(run.low)}, ${number(run.high)}]`),
    run.lost_percent ? `lost ${percent(run.lost_percent)} of samples` : "",
    run.steady === null ? "" : run.steady ? "steady" : "not steady",
    run.slowness !== null && run.slowness > 1 ? `slow motion ${number(run.slowness)}` : "",
    run.device_bound_fraction === null ? "" : `device-bound ${percent(100 * run.device_bound_fraction)}`,
    run.attempts > 1 ? counted(run.attempts, "attempt") : "",
    run.started_ns !== null && run.ended_ns !== null ? shortSeconds((run.ended_ns - run.started_ns) / 1e9) : "",
  ]
    .filter(Boolean)
    .join("; ");
}
