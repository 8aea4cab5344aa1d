// SPDX-License-Identifier: GPL-3.0-or-later
import { describe, expect, test } from "vitest";
import { age, counted, duration, fixed, lasted, latency, number, percent, shortSeconds, tick, timeLabel } from "../text/format";

describe("a number has three significant digits", () => {
  test.each([
    [0, "0"],
    [1, "1.00"],
    [0.12345, "0.123"],
    [999.6, "1000"],
    [1234.4, "1234"],
    [12345, "12.3 k"],
    [1_234_567, "1.23 M"],
    [999_960, "1.00 M"],
    [4_000_000_000_000, "4.00 T"],
    [-12345, "-12.3 k"],
    [0.0001234, "1.2e-4"],
  ])("%d is %s", (value, text) => expect(number(value)).toBe(text));

  test.each([null, undefined, Number.NaN])("%s is unknown", (value) => expect(number(value)).toBe("–"));
  test("or as many as asked for", () => expect(number(1000.02, 4)).toBe("1000"));
});

describe("a tick of an axis keeps what it needs", () => {
  test.each([
    [0, "0"],
    [0.25, "0.25"],
    [15000, "15k"],
    [2_500_000, "2.5M"],
    [0.1 + 0.2, "0.3"],
  ])("%d is %s", (value, text) => expect(tick(value)).toBe(text));
});

describe("a duration", () => {
  test.each([
    [0, "0:00"],
    [59.6, "1:00"],
    [61, "1:01"],
    [3600, "1:00:00"],
    [3661, "1:01:01"],
    [48 * 3600, "2 d 0 h"],
    [-5, "0:00"],
  ])("of %d s is %s", (seconds, text) => expect(duration(seconds)).toBe(text));
  test("may be unknown", () => expect(duration(null)).toBe("–"));
});

test.each([
  [null, "–"],
  [0, "0 %"],
  [0.001, "< 0.01 %"],
  [5, "5.00 %"],
])("%s as a percentage is %s", (value, text) => expect(percent(value)).toBe(text));

test.each([
  [undefined, "–"],
  [0, "0 s"],
  [0.000143, "143 µs"],
  [0.25, "250.0 ms"],
  [5, "5.00 s"],
  [75, "75.0 s"],
])("%s s is short as %s", (value, text) => expect(shortSeconds(value)).toBe(text));

test("one run, two runs", () => {
  expect(counted(1, "run")).toBe("1 run");
  expect(counted(2, "run")).toBe("2 runs");
  expect(counted(0, "run")).toBe("0 runs");
});

test("decimals are fixed, and NaN is none", () => {
  expect(fixed(1.23456, 3)).toBe("1.235");
  expect(fixed(Number.NaN, 3)).toBe("–");
});

test.each([
  [1, "20:15:30"],
  [300, "20:15"],
  [86400, "11-20"],
])("a time on an axis of steps of %d s is %s", (step, text) => {
  expect(timeLabel(Date.UTC(2026, 10, 20, 20, 15, 30) / 1000, step)).toBe(text);
});

test.each([
  [null, "–"],
  [0, "0 s"],
  [4.2e-7, "0.420 µs"],
  [1.234e-4, "123 µs"],
  [9.996e-4, "1.00 ms"],
  [0.0121, "12.1 ms"],
  [0.9996, "1.00 s"],
  [31.5, "31.5 s"],
])("a latency of %s s is %s", (seconds, text) => expect(latency(seconds)).toBe(text));

test.each([
  [12.4, "12 s"],
  [600, "10 min"],
  [7200, "2 h"],
  [4 * 86400, "4 days"],
])("what lasted %s s lasted %s", (seconds, text) => {
  expect(lasted(seconds)).toBe(text);
  expect(age(seconds)).toBe(text + " ago");
});
