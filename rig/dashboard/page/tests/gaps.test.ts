// SPDX-License-Identifier: GPL-3.0-or-later
import { expect, test } from "vitest";
import { findGaps } from "../charts/gaps";

const times = [0, 1, 2, 3, 4, 5, 6, 7];

test("a trace with all its values has no gap", () => {
  expect(findGaps(times, [[1, 1, 1, 1, 1, 1, 1, 1]], 1)).toEqual([]);
});

test("a stretch without values is a gap, from value to value", () => {
  expect(findGaps(times, [[1, 1, null, null, 1, 1, 1, 1]], 1)).toEqual([{ start: 1, end: 4 }]);
});

test("what has not begun or not arrived is none", () => {
  expect(findGaps(times, [[null, null, null, 1, 1, null, null, null]], 1)).toEqual([]);
});

test("a stretch no longer than what meters take to flush is none", () => {
  expect(findGaps(times, [[1, null, 1, 1, 1, 1, 1, 1]], 2)).toEqual([]);
});

test("gaps of several rails are joined where they meet", () => {
  const rows = [
    [1, null, null, 1, 1, 1, 1, 1],
    [1, 1, null, null, 1, null, null, 1],
  ];
  expect(findGaps(times, rows, 1)).toEqual([{ start: 0, end: 7 }]);
});

test("gaps that do not meet stay two", () => {
  expect(findGaps(times, [[1, null, null, 1, 1, null, null, 1]], 1)).toEqual([
    { start: 0, end: 3 },
    { start: 4, end: 7 },
  ]);
});

test("a gap within a longer one of another rail changes nothing", () => {
  const rows = [
    [1, null, null, null, null, null, null, 1],
    [1, 1, null, 1, 1, 1, 1, 1],
  ];
  expect(findGaps(times, rows, 1)).toEqual([{ start: 0, end: 7 }]);
});
