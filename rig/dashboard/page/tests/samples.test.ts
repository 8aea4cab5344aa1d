// SPDX-License-Identifier: GPL-3.0-or-later
import { expect, test } from "vitest";
import { describe as describeRail, reduce, shownQuantities, type RailSamples } from "../live/samples";

const rail = (more: Partial<RailSamples> = {}): RailSamples => ({ meter: "tap1a", rail: "12v", sample_rate_hz: 1000, start_ns: 0, complete: true, ...more });

test("many samples become few buckets, and no peak is lost", () => {
  const values = Array.from({ length: 10_000 }, (_, i) => (i === 4321 ? 99 : 1));
  const { max, min, mean } = reduce(values, 100);
  expect(max).toHaveLength(100);
  expect(Math.max(...max.map((value) => value ?? 0))).toBe(99);
  expect(min.every((value) => value === 1)).toBe(true);
  expect(mean[0]).toBe(1);
});

test("fewer samples than buckets stay as they are", () => {
  expect(reduce([1, null, 3], 100)).toEqual({ max: [1, null, 3], min: [1, null, 3], mean: [1, null, 3] });
  expect(reduce([], 100).mean).toEqual([]);
});

test("quantities are those that a rail has", () => {
  const both = rail({ volts: [12], amps: [1] });
  const stated = rail({ rail: "5v", amps: [1], constant_volts: 5 });
  const shown = shownQuantities({ rails: [both, stated] });
  expect(shown.map(({ quantity, rails }) => [quantity, rails.length])).toEqual([
    ["volts", 1],
    ["amps", 2],
  ]);
  expect(shownQuantities({ rails: [] })).toEqual([]);
});

test("samples say their rate, and whether there are as many as were asked for", () => {
  expect(describeRail(rail({ volts: [1, 2] }))).toBe("12v: 2 samples at 1000 Hz by tap1a");
  expect(describeRail(rail({ amps: [1], constant_volts: 5 }))).toContain("its volts are stated: 5 V");
  expect(describeRail(rail({ complete: false }))).toContain("▲ fewer than asked for");
});
