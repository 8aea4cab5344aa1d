// SPDX-License-Identifier: GPL-3.0-or-later
import { beforeEach, expect, test } from "vitest";
import { PRECONDITIONING } from "../generated/names";
import { hear } from "../link/clock";
import { create, describe as describeStep, setRounds, update } from "../live/settling";

const run = (settling: object | null) => ({ id: "a-0001", ordinal: 1, cell: "d/ext4", replicate: 1, drive: "d", started_ns: 0, settling }) as Parameters<typeof update>[1];
const SETTLING = { began_ns: 1000e9, at_most_seconds: 400, at_most_rounds: 8 };

beforeEach(() => {
  setRounds({});
  hear(1100);
});

test.each(PRECONDITIONING)("step %s is described", (step) => {
  expect(describeStep(0, 8, step)).not.toBe("starting");
});

test.each([
  [0, undefined, "starting"],
  [0, "purge", "purging"],
  [0, "passes", "writing the whole drive"],
  [0, "rounds", "round 1 of at most 8"],
  [2, "rounds", "round 3 of at most 8"],
  [2, undefined, "round 3 of at most 8"],
  [8, "rounds", "judging"],
])("after %i rounds in step %s it is %s", (made, step, text) => expect(describeStep(made, 8, step)).toBe(text));

test("it is hidden without a run, and without preconditioning", () => {
  const element = create();
  update(element, null);
  expect(element.hidden).toBe(true);
  update(element, run(null));
  expect(element.hidden).toBe(true);
});

test("it shows the rounds so far and the time left at most", () => {
  setRounds({ "a-0001": [{ number: 1, iops: 60000, watts: 4.25 }, { number: 2, iops: 15000, watts: null }] });
  const element = create();
  update(element, run(SETTLING), "rounds");
  expect(element.hidden).toBe(false);
  expect(element.querySelector("p")!.textContent).toBe("preconditioning · round 3 of at most 8 · at most 5:00 left");
  const cells = [...element.querySelectorAll("tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent));
  expect(cells).toEqual([
    ["1", "60.0 k", "4.250"],
    ["2", "15.0 k", ""],
  ]);
});

test("without a round there is no table", () => {
  const element = create();
  update(element, run(SETTLING), "purge");
  expect(element.querySelector("table")!.hidden).toBe(true);
});
