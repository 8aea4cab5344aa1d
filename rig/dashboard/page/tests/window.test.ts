// SPDX-License-Identifier: GPL-3.0-or-later
import { beforeEach, describe, expect, test } from "vitest";
import { Window } from "../link/window";

const section = (first: number, rows: number[][][]) => ({
  bucketSeconds: 0.5,
  first,
  buckets: rows[0]![0]!.length,
  channels: rows.length,
  columns: rows[0]!.length,
  values: rows.flat(2),
});

let window: Window;
beforeEach(() => {
  window = new Window(0.5, 10);
});

describe("the window of the last buckets", () => {
  test("has one bucket more than its span", () => expect(window.length).toBe(21));

  test("ends with the newest section", () => {
    window.apply(section(1000, [[[1, 2]]]));
    expect(window.end).toBe(1002);
    expect(window.channels[0]![0]!.slice(-3)).toEqual([null, 1, 2]);
    expect(window.times.at(-1)).toBe(500.75);
  });

  test("has null where a section has no value", () => {
    window.apply(section(1000, [[[1, Number.NaN, 3]]]));
    expect(window.channels[0]![0]!.slice(-3)).toEqual([1, null, 3]);
  });

  test("takes values that come late", () => {
    window.apply(section(1000, [[[Number.NaN, Number.NaN, 3]]]));
    window.apply(section(1000, [[[1, 2]]]));
    expect(window.channels[0]![0]!.slice(-3)).toEqual([1, 2, 3]);
  });

  test("is complete until its newest bucket with a value begins", () => {
    expect(window.completeUntil()).toBe(0);
    window.apply(section(1000, [[[1, 2, Number.NaN]]]));
    expect(window.completeUntil()).toBe(500.5);
    window.apply(section(1000, [[[1, 2, Number.NaN]], [[1, 2, 3]]]));
    expect(window.completeUntil()).toBe(501);
  });

  test("ignores what is older than itself", () => {
    window.apply(section(1000, [[[7]]]));
    window.apply(section(900, [[[1]]]));
    expect(window.channels[0]![0]!.filter((value) => value !== null)).toEqual([7]);
  });

  test("is empty after a pause that is longer than itself", () => {
    window.apply(section(1000, [[[7]]]));
    window.slideTo(5000);
    expect(window.channels[0]![0]!.every((value) => value === null)).toBe(true);
    expect(window.channels[0]![0]).toHaveLength(21);
  });

  test("makes room for channels that appear", () => {
    window.apply(section(1000, [[[1]]]));
    window.apply(section(1001, [[[2]], [[5]]]));
    expect(window.channels[0]![0]!.slice(-2)).toEqual([1, 2]);
    expect(window.channels[1]![0]!.slice(-2)).toEqual([null, 5]);
  });

  test("keeps columns apart", () => {
    window.apply(section(1000, [[[1], [10]]]));
    expect(window.channels[0]!.map((row) => row.at(-1))).toEqual([1, 10]);
  });
});

describe("the recent value", () => {
  test("is the mean of the newest second", () => {
    window.apply(section(1000, [[[9, 2, 4]]]));
    expect(window.recent(0, 0)).toBe(3);
  });

  test("looks past buckets that are not filled yet", () => {
    window.apply(section(1000, [[[2, 4, Number.NaN, Number.NaN]]]));
    expect(window.recent(0, 0)).toBe(3);
  });

  test("is none after five seconds of silence", () => {
    window.apply(section(1000, [[[2, 4]]]));
    window.slideTo(1011);
    expect(window.recent(0, 0)).toBe(3);
    window.slideTo(1012);
    expect(window.recent(0, 0)).toBeNull();
  });

  test("of a channel that is not there is none", () => expect(window.recent(3, 0)).toBeNull());
});
