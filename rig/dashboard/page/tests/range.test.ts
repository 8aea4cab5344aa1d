// SPDX-License-Identifier: GPL-3.0-or-later
import { describe, expect, test } from "vitest";
import { nanoseconds } from "../charts/longview";
import { afterKey, clamp, LEAST_SECONDS, MOST_SECONDS, move, widthText, zoom } from "../charts/range";
import { gaps, ioLines, powerLines, times, type IoView, type PowerView } from "../charts/views";

const NOW = 10_000;
const RANGE = { from: 4000, to: 5000 };

describe("a zoom", () => {
  test("keeps what is under the pointer where it is", () => {
    const near = zoom(RANGE, 0.5, 4200, NOW);
    expect(near).toEqual({ from: 4100, to: 4600 });
    expect((4200 - near.from) / (near.to - near.from)).toBeCloseTo(0.2);
  });
  test("and back is where it was", () => expect(zoom(zoom(RANGE, 0.5, 4200, NOW), 2, 4200, NOW)).toEqual(RANGE));
  test("ends at the least and the most", () => {
    let range = RANGE;
    for (let i = 0; i < 60; i++) range = zoom(range, 0.5, 4500, NOW);
    expect(range.to - range.from).toBeCloseTo(LEAST_SECONDS);
    for (let i = 0; i < 60; i++) range = zoom(range, 2, 4500, NOW);
    expect(range.to - range.from).toBeCloseTo(MOST_SECONDS);
  });
  test("out does not reach into the future", () => expect(zoom({ from: 9000, to: 10000 }, 2, 9500, NOW)).toEqual({ from: 8000, to: 10000 }));
});

test("a range in the future ends now", () => {
  expect(clamp({ from: 9500, to: 10500 }, NOW)).toEqual({ from: 9000, to: 10000 });
  expect(move(RANGE, 1e6, NOW)).toEqual({ from: 9000, to: 10000 });
});

test.each([
  ["ArrowLeft", { from: 3750, to: 4750 }],
  ["ArrowRight", { from: 4250, to: 5250 }],
  ["PageUp", { from: 3000, to: 4000 }],
  ["PageDown", { from: 5000, to: 6000 }],
  ["+", { from: 4250, to: 4750 }],
  ["=", { from: 4250, to: 4750 }],
  ["-", { from: 3500, to: 5500 }],
  ["End", { from: 9000, to: 10000 }],
  ["Tab", null],
  ["a", null],
])("after %s the range is %o", (key, range) => expect(afterKey(RANGE, key, NOW)).toEqual(range));

test.each([
  [10, "10 s"],
  [600, "10 min"],
  [5400, "1.5 h"],
  [30 * 86400, "30 d"],
])("%d s are %s wide", (seconds, text) => expect(widthText({ from: 0, to: seconds })).toBe(text));

test("nanoseconds of a time in this century are exact to the millisecond", () => {
  expect(nanoseconds(1_795_000_000.123)).toBe("1795000000123000000");
});

describe("a reply", () => {
  const grid = { host: "h", drive: "d", start_ns: 100e9, bucket_ns: 2e9, buckets: 3 };
  const rail = (name: string, mean: (number | null)[], gap: (number | null)[] = [0, 0, 0]) => ({ rail: name, meter: "m", mean, min: mean, max: mean, gap_seconds: gap });

  test("has the middle of each bucket as its times", () => expect(times(grid)).toEqual([101, 103, 105]));

  test("has its rails in the order of their volts", () => {
    const view: PowerView = { ...grid, rails: [rail("12v", [1, 1, 1]), rail("5v", [2, 2, 2])] };
    expect(powerLines(view).map(({ name }) => name)).toEqual(["5v", "12v"]);
  });

  test("has lines of the columns that are shown", () => {
    const column = { mean: [1], min: [1], max: [1] };
    const view: IoView = { ...grid, rate_seconds: 1, columns: { reads: column, writes: column, flushes: column, read_mb: column, write_mb: column } };
    expect(ioLines(view, "iops").map(({ name }) => name)).toEqual(["reads/s", "writes/s", "flushes/s"]);
    expect(ioLines(view, "mbps").map(({ name }) => name)).toEqual(["MB/s read", "MB/s written"]);
  });

  test("has gaps where a bucket has no value, and where a meter reports one", () => {
    const empty: PowerView = { ...grid, rails: [rail("5v", [1, null, 1])] };
    expect(gaps(empty, powerLines(empty), 3)).toEqual([{ start: 101, end: 105 }]);
    const short: PowerView = { ...grid, rails: [rail("5v", [1, 1, 1], [0, 0.5, null])] };
    expect(gaps(short, powerLines(short), 3)).toEqual([{ start: 102, end: 104 }]);
  });
});

test("buckets that lie side by side have no gap between them, however wide they are", () => {
  const mean = [1, 1, 1];
  const wide: PowerView = { host: "h", drive: "d", start_ns: 0, bucket_ns: 60e9, buckets: 3, rails: [{ rail: "5v", meter: "m", mean, min: mean, max: mean, gap_seconds: [0, 0, 0] }] };
  expect(gaps(wide, powerLines(wide), 3)).toEqual([]);
});
