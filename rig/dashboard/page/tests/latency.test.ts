// SPDX-License-Identifier: GPL-3.0-or-later
import { expect, test } from "vitest";
import { Window } from "../link/window";
import type { Load } from "../link/messages";
import { describeLoad, describeRequests } from "../live/latency";

// A window whose newest second has these values in the columns of an I/O section.
function window(...columns: number[]): Window {
  const made = new Window(0.5, 10);
  const values = columns.flatMap((value) => [value, value]);
  made.apply({ bucketSeconds: 0.5, first: 1000, buckets: 2, channels: 1, columns: 8, values });
  return made;
}

const load = (classes: Load["classes"]): Load => ({ host: "h", drive: "d", run: "r-1", age_seconds: 1.2, classes });

test("a request's mean is the time of all by their number", () => {
  expect(describeRequests(window(0, 1000, 500, 0, 4, 0, 0.5, 0.6), 0)).toBe("mean of a request: write 500 µs · flush 1.20 ms");
});

test("means are not means of means", () => {
  const uneven = new Window(0.5, 10);
  const values = [[10, 990], [0, 0], [0, 0], [0, 0], [0, 0], [0.01, 9.99], [0, 0], [0, 0]].flat();
  uneven.apply({ bucketSeconds: 0.5, first: 1000, buckets: 2, channels: 1, columns: 8, values });
  expect(describeRequests(uneven, 0)).toBe("mean of a request: read 10.0 ms"); // 1 ms, and 10.09 ms of 99 %
});

test.each<[string, Window, number | null]>([
  ["requests: latency not measured", window(0, 0, 0, 0, 0, 0, 0, 0), null],
  ["requests: latency not measured", window(5, 0, 0, 0, 0, Number.NaN, 0, 0), 0],
  ["requests: no figures now", new Window(0.5, 10), 0],
  ["no requests", window(0, 0, 0, 0, 0, 0, 0, 0), 0],
])("%s", (text, io, channel) => expect(describeRequests(io, channel)).toBe(text));

test("a load has quantiles by class, those that took the most of its time first", () => {
  const classes = {
    read: { ops: 900, seconds: 0.1, p50: 1e-4, p99: 2e-4, max: 3e-4 },
    fsync: { ops: 100, seconds: 0.9, p50: 0.0088, p99: 0.0121, max: 0.04 },
  };
  const { lines, title } = describeLoad(load(classes), true);
  expect(lines).toEqual(["fsync: p50 8.80 ms · p99 12.1 ms · most 40.0 ms", "read: p50 100 µs · p99 200 µs · most 300 µs"]);
  expect(title).toContain("run r-1, in the second that ended 1 s ago");
});

test("what a load does not measure is said, and what no load does is not", () => {
  expect(describeLoad(load({}), true).lines).toEqual(["quantiles: not measured by this load"]);
  expect(describeLoad(load({ read: { ops: 3 } }), true).lines).toEqual(["quantiles: not measured by this load"]);
  expect(describeLoad(undefined, true).lines).toEqual(["load: no figures yet"]);
  expect(describeLoad(undefined, false).lines).toEqual([]);
});

test("no more than the three classes that took most are shown, and all are in the title", () => {
  const one = (seconds: number) => ({ ops: 1, seconds, p50: 1, p99: 1, max: 1 });
  const { lines, title } = describeLoad(load({ a: one(1), b: one(4), c: one(3), d: one(2) }), true);
  expect(lines.map((line) => line[0])).toEqual(["b", "c", "d"]);
  expect(title).toContain("a: p50");
});
