// SPDX-License-Identifier: GPL-3.0-or-later
import { beforeEach, describe, expect, test } from "vitest";
import { make } from "../dom/elements";
import type { Cell, Figure } from "../link/messages";
import { describeCell, factorsText, fillCell } from "../live/ai";

const FIGURE: Figure = { mean: 200, low: 190, high: 210, n: 2, share: 1, mark: "" };
const cell = (more: Partial<Cell> = {}): Cell => ({ planned: 3, partial: 0, failed: 0, running: 0, not_run: 0, ...more });

let td: HTMLElement;
beforeEach(() => {
  td = make("td");
});

describe("a cell of the table", () => {
  test("shows its mean and how many runs it is of", () => {
    fillCell(td, cell({ ops: FIGURE }), "ops");
    expect(td.textContent).toBe("200n 2/3");
    expect(td.className).toBe("ai-cell");
  });

  test("has a star only where it is marked best", () => {
    fillCell(td, cell({ ops: { ...FIGURE, mark: "best" } }), "ops");
    expect(td.textContent).toContain("★200");
    expect(td.classList.contains("best")).toBe(true);
    fillCell(td, cell({ ops: { ...FIGURE, mark: "open" } }), "ops");
    expect(td.textContent).toContain("≈200");
    expect(td.classList.contains("best")).toBe(false);
  });

  test("flags partial, failed and running runs by symbols", () => {
    fillCell(td, cell({ ops: FIGURE, partial: 2, failed: 1, running: 1 }), "ops");
    expect(td.querySelector("small")!.textContent).toBe("n 2/3 ◐2 ✕1 ▶");
  });

  test("of partial runs only is set apart", () => {
    fillCell(td, cell({ ops: { ...FIGURE, n: 0 }, partial: 1 }), "ops");
    expect(td.classList.contains("only-partial")).toBe(true);
    expect(td.title).toContain("partial runs only");
    expect(td.style.getPropertyValue("--shade")).toBe("");
  });

  test("is shaded by its share of the best, from half on", () => {
    for (const [share, shade] of [
      [1, "1.000"],
      [0.75, "0.500"],
      [0.4, "0.000"],
    ] as const) {
      fillCell(td, cell({ ops: { ...FIGURE, share } }), "ops");
      expect(td.style.getPropertyValue("--shade")).toBe(shade);
    }
  });

  test("without a rail shows its rate", () => {
    fillCell(td, cell({ unmetered: { n: 1, ops: 1500 } }), "ops");
    expect(td.textContent).toBe("1500 ops/sn 1/3");
    expect(td.title).toBe("no rail, so no joules; 1 of 3 runs");
    fillCell(td, cell({ unmetered: { n: 1, ops: 1500 } }), "mb");
    expect(td.querySelector(".value")!.textContent).toBe("–");
  });

  test("that is not in the campaign is hatched, and says so", () => {
    fillCell(td, cell({ ops: { ...FIGURE, mark: "best" } }), "ops");
    fillCell(td, undefined, "ops");
    expect(td.className).toBe("ai-cell absent");
    expect(td.title).toBe("not in this campaign");
    expect(td.textContent).toBe("");
  });
});

test("the long text has the runs' range and the energy's", () => {
  const figure = { ...FIGURE, energy_low: 195, energy_high: 205 };
  expect(describeCell(cell({ ops: figure, not_run: 1 }), "ops")).toBe(
    "200 ops/J, 190 to 210 over 2 of 3 runs; by the energy interval alone 195 to 205; 1 not run",
  );
});

test("further factors are named with their level", () => {
  expect(factorsText({ journal: "nvdimm", depth: 4 })).toBe("journal=nvdimm depth=4");
});
