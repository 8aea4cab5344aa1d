// SPDX-License-Identifier: GPL-3.0-or-later
import { expect, test } from "vitest";
import { elapsed, timeLeft } from "../shell/header";
import { elapsed as phaseElapsed } from "../live/hosts";

const TIMES = { created_ns: 1000e9, started_ns: 1010e9, finished_ns: null, eta_ns: 1300e9, eta_at_most: false };

test("elapsed is from the first run on, until the end", () => {
  expect(elapsed(TIMES, 1070)).toBe("1:00");
  expect(elapsed({ ...TIMES, finished_ns: 1130e9 }, 9999)).toBe("2:00");
  expect(elapsed({ ...TIMES, started_ns: null }, 1070)).toBe("–");
  expect(elapsed({ ...TIMES, started_ns: null, finished_ns: 1030e9 }, 9999)).toBe("0:30");
});

test.each([
  [{}, 1000, "5:00"],
  [{ eta_at_most: true }, 1000, "≤ 5:00"],
  [{ eta_ns: null }, 1000, "after first run"],
  [{}, 1299.5, "any moment"],
  [{}, 1400, "any moment"],
  [{ finished_ns: 1200e9 }, 1000, "done"],
])("time left of %o at %d is %s", (more, at, text) => expect(timeLeft({ ...TIMES, ...more }, at)).toBe(text));

test("a phase has taken so long", () => {
  const band = { campaign: "a", run: "a-1", host: "h", drive: "d", phase: "idle", start_ns: 100e9, end_ns: null };
  expect(phaseElapsed("current", band, 104.25)).toBe("4.3 s");
  expect(phaseElapsed("current", band, 175)).toBe("1:15");
  expect(phaseElapsed("past", { ...band, end_ns: 102e9 }, 175)).toBe("2.0 s");
  expect(phaseElapsed("past", undefined, 175)).toBe("✓");
  expect(phaseElapsed("ahead", band, 175)).toBe("");
});
