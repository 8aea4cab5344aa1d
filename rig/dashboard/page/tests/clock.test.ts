// SPDX-License-Identifier: GPL-3.0-or-later
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { hear, now, setSlowness } from "../link/clock";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  setSlowness(1);
  vi.useRealTimers();
});

test("between two messages the lab's time goes on", () => {
  hear(1000);
  vi.advanceTimersByTime(2500);
  expect(now()).toBeCloseTo(1002.5);
  hear(1003);
  expect(now()).toBeCloseTo(1003);
});

test("in slow motion it goes on more slowly", () => {
  setSlowness(10);
  hear(1000);
  vi.advanceTimersByTime(5000);
  expect(now()).toBeCloseTo(1000.5);
});
