// SPDX-License-Identifier: GPL-3.0-or-later
import { expect, test } from "vitest";
import { pairs, whyNot } from "../history/compare";
import { fileAddress, stateText, toggle, took } from "../history/page";
import type { PlannedCell } from "../link/replies";
import { age, bytes, date, energy, share } from "../text/format";

test("the last two that were chosen are compared", () => {
  expect(toggle([], "a", true)).toEqual(["a"]);
  expect(toggle(["a", "b"], "c", true)).toEqual(["b", "c"]);
  expect(toggle(["a", "b"], "a", false)).toEqual(["b"]);
  expect(toggle(["a"], "a", true)).toEqual(["a"]);
});

test("a file's address keeps its slashes and encodes the rest", () => {
  expect(fileAddress("demo-1", "report/a b.html")).toBe("/files/demo-1/report/a%20b.html");
  expect(fileAddress("demo-1", "../x?y#z")).toBe("/files/demo-1/../x%3Fy%23z");
});

test("a campaign's state says whether a process executes it", () => {
  expect(stateText({ state: "finished", executed: false, asked: null, finished_ns: 1 })).toBe("✓ finished");
  expect(stateText({ state: "running", executed: true, asked: "pause", finished_ns: null })).toBe("▶ running, asked to pause");
  expect(stateText({ state: "between runs", executed: false, asked: null, finished_ns: null })).toBe("○ between runs; no process executes it");
});

test("a campaign took a time once it is over", () => {
  expect(took({ created_ns: 0, finished_ns: 3600e9 })).toBe("1:00:00");
  expect(took({ created_ns: 0, finished_ns: null })).toBe("–");
});

test("cells are paired by name, and those of one campaign stay", () => {
  const cell = (name: string) => ({ cell: name }) as PlannedCell;
  const list = pairs([cell("a"), cell("b")], [cell("b"), cell("c")]);
  expect(list.map(({ cell: name, first, second }) => [name, Boolean(first), Boolean(second)])).toEqual([
    ["a", true, false],
    ["b", true, true],
    ["c", false, true],
  ]);
});

test("campaigns of other plans are not comparable as a whole", () => {
  expect(whyNot([])).toBe("Choose two campaigns.");
  expect(whyNot([{ comparable: "x" }, { comparable: "x" }])).toBeNull();
  expect(whyNot([{ comparable: "x" }, { comparable: "y" }])).toContain("other cells or phases");
});

test.each([
  [null, "–"],
  [0, "0 B"],
  [999, "999 B"],
  [1500, "1.50 kB"],
  [3.84e12, "3.84 TB"],
  [2.5e17, "250 PB"],
])("%s bytes are %s", (value, text) => expect(bytes(value)).toBe(text));

test.each([
  [5, "5 s ago"],
  [300, "5 min ago"],
  [7200, "2 h ago"],
  [259200, "3 days ago"],
  [null, "age unknown"],
])("%s s are %s", (seconds, text) => expect(age(seconds)).toBe(text));

test.each([
  [0.0000005, "0.500 mWh"],
  [0.25, "250 Wh"],
  [12.5, "12.5 kWh"],
  [null, "–"],
])("%s kWh are %s", (kwh, text) => expect(energy(kwh)).toBe(text));

test("dates are UTC, shares are percentages", () => {
  expect(date(Date.UTC(2026, 10, 20, 20, 15) * 1e6)).toBe("2026-11-20 20:15");
  expect(share(0.05)).toBe("5.0 %");
  expect(share(0.5)).toBe("50 %");
});
