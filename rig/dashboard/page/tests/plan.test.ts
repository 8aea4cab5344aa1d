// SPDX-License-Identifier: GPL-3.0-or-later
import { beforeEach, describe, expect, test } from "vitest";
import { aiText, describeRun, fill, grids, intervalText, quiescenceMissing, quiescenceText } from "../campaign/plan";
import { make } from "../dom/elements";
import type { PlannedCell, Replicate } from "../link/replies";

const run = (more: Partial<Replicate> = {}): Replicate => ({
  id: "a-0001", ordinal: 1, replicate: 1, host: "h", status: "ok", reason: "", started_ns: 0, ended_ns: 30e9, attempts: 1,
  ops_per_joule: 200, mb_per_joule: 1, joules: 50, low: 49, high: 51, lost_percent: 0, steady: null, slowness: 1,
  device_bound_fraction: null, ...more,
});
const cell = (more: Partial<PlannedCell> = {}): PlannedCell => ({
  drive: "nvme", workload: "varmail", factors: {}, filesystem: "ext4", scheduler: "none", cell: "nvme/ext4/none/varmail",
  runs: [run()], ai: {}, to_quiescence: null, unmetered: null, untested: "", dropped: null, ...more,
});
const AI = { mean: 200, low: 190, high: 210, n: 3, share: 1, mark: "" as const, interval: { low: 180, high: 220 } };

describe("grids", () => {
  test("are one a drive, workload and further factors", () => {
    const list = grids([
      cell(),
      cell({ filesystem: "xfs", scheduler: "bfq" }),
      cell({ drive: "hdd" }),
      cell({ factors: { journal: "nvdimm" } }),
    ]);
    expect(list.map(({ drive, factors }) => [drive, factors])).toEqual([
      ["nvme", ""],
      ["hdd", ""],
      ["nvme", "journal=nvdimm"],
    ]);
    expect(list[0]!.filesystems).toEqual(["ext4", "xfs"]);
    expect(list[0]!.schedulers).toEqual(["bfq", "none"]);
    expect([...list[0]!.cells.keys()]).toEqual(["ext4|none", "xfs|bfq"]);
  });
});

describe("a cell", () => {
  let td: HTMLElement;
  beforeEach(() => {
    td = make("td");
  });

  test("shows its AI with a star where it is best", () => {
    expect(aiText(cell({ ai: { ops: { ...AI, mark: "best" } } }))).toBe("★ 200 ops/J");
    expect(aiText(cell({ ai: { ops: { ...AI, mark: "open" } } }))).toBe("≈ 200 ops/J");
    expect(aiText(cell())).toBe("–");
    expect(aiText(cell({ unmetered: { n: 1, ops: 1500 } }))).toBe("1500 ops/s, no rail");
  });

  test("shows the report's interval, or that runs are too few", () => {
    expect(intervalText(cell({ ai: { ops: AI } }))).toBe("180 to 220, n 3");
    expect(intervalText(cell({ ai: { ops: { ...AI, interval: null, n: 1 } } }))).toBe("n 1: too few for an interval");
    expect(intervalText(cell({ ai: { ops: { ...AI, n: 0 } } }))).toBe("partial runs only");
  });

  test("shows AI to quiescence: at most that where power was not back at idle", () => {
    const quiet = { ops_per_joule: 195.4, runs: 3, settled: 3, why: "" };
    expect(quiescenceText(195.4, quiet)).toBe("195 to quiescence");
    expect(quiescenceText(195.4, { ...quiet, settled: 1 })).toBe("≤ 195 to quiescence, 1 of 3 back at idle");
    const unknown = { ...quiet, ops_per_joule: null, why: "not known: no power points" };
    expect(quiescenceMissing([{ to_quiescence: unknown }, { to_quiescence: null }])).toBe("AI to quiescence not known: no power points");
    expect(quiescenceMissing([{ to_quiescence: unknown }, { to_quiescence: quiet }])).toBe("");
    expect(quiescenceMissing([{ to_quiescence: null }])).toBe("");
    fill(td, cell({ ai: { ops: AI }, to_quiescence: { ...quiet, settled: 2, why: "the tail ends 2 s after the load" } }));
    expect(td.querySelector<HTMLElement>(".quiescence")!.title).toBe("the tail ends 2 s after the load");
    fill(td, cell());
    expect(td.querySelector(".quiescence")).toBeNull();
  });

  test("has a symbol for each replicate, with words for screen readers", () => {
    fill(td, cell({ runs: [run(), run({ status: "partial", reason: "meter silent" })] }));
    const symbols = [...td.querySelectorAll(".replicate")];
    expect(symbols.map((one) => one.textContent)).toEqual(["✓", "◐"]);
    expect(symbols[1]!.getAttribute("aria-label")).toContain("partial; meter silent");
  });

  test("says why a race left it out", () => {
    fill(td, cell({ dropped: { by: "nvme, look 2", reason: "cannot be the best" } }));
    expect(td.classList.contains("dropped")).toBe(true);
    expect(td.textContent).toContain("▽ left out by nvme, look 2: cannot be the best");
  });

  test("that is in no plan says so", () => {
    fill(td, undefined);
    expect(td.className).toBe("absent");
    expect(td.textContent).toBe("not in this campaign");
  });
});

describe("the words of a run", () => {
  test("have its joules with their bounds", () => {
    expect(describeRun(run())).toBe("run 1, replicate 1: ok; 200 ops/J; 50.0 J in [49.0, 51.0]; 30.0 s");
  });
  test("say what its value is worth", () => {
    const words = describeRun(run({ low: null, lost_percent: 1, steady: false, slowness: 20, device_bound_fraction: 0.5, attempts: 2 }));
    expect(words).toContain("50.0 J, bounds unknown; lost 1.00 % of samples; not steady; slow motion 20.0; device-bound 50.00 %; 2 attempts");
  });
});
