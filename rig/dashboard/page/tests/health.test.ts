// SPDX-License-Identifier: GPL-3.0-or-later
import { expect, test } from "vitest";
import { describe as words, powerState } from "../live/health";

const seen = (power_state: { number: number; most_watts: number | null } | null) => ({ run: "r-1", age_seconds: 300, power_state });

test("a drive has its temperature and wear, and the power state that its last run recorded", () => {
  const health = { temperature_celsius: 41.4, percentage_used: 3, media_errors: 2, age_seconds: 20 };
  expect(words({ health, seen: seen({ number: 1, most_watts: 4.5 }) })).toEqual({
    text: "41 °C · 3 % used · ▲ 2 media errors · power state 1 (≤ 4.50 W), 5 min ago",
    old: false,
  });
});

test("what a drive did not report is said", () => {
  expect(words({ health: null, seen: null })).toEqual({ text: "temperature not measured · power state not measured", old: false });
});

test("what is old has its age", () => {
  expect(words({ health: { temperature_celsius: 40, age_seconds: 600 }, seen: null })).toMatchObject({
    text: "40 °C · 10 min ago · power state not measured",
    old: true,
  });
});

test("a power state of which the drive states no watts has none", () => {
  expect(powerState(seen({ number: 0, most_watts: null }))).toBe("power state 0, 5 min ago");
  expect(powerState(seen(null))).toBe("power state not measured");
});
