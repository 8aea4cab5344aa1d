// SPDX-License-Identifier: GPL-3.0-or-later
import { expect, test } from "vitest";
import { byDrive, voltsAndAmps } from "../live/power";
import { sum } from "../live/io";
import { fromZero } from "../charts/strip";

const rail = (drive: string, name: string) => ({ host: "h", drive, rail: name, meter: "tap1" });

test("rails are grouped by drive, keep their channel, and are in the order of their volts", () => {
  const drives = byDrive([rail("hdd-1", "12v"), rail("nvme", "3v3"), rail("hdd-1", "5v")]);
  expect(drives.map(({ key }) => key)).toEqual(["h/hdd-1", "h/nvme"]);
  expect(drives[0]!.rails.map((one) => [one.rail, one.channel])).toEqual([
    ["5v", 2],
    ["12v", 0],
  ]);
});

test("a sum has a value only where both have", () => {
  expect(sum([1, null, 3], [10, 20, null])).toEqual([11, null, null]);
});

test("a chart's axis begins at zero and leaves room", () => {
  expect(fromZero(2, 10)).toEqual([0, 11.2]);
  expect(fromZero(null, null)).toEqual([0, 1]);
  expect(fromZero(-1, 1)).toEqual([-1.24, 1.24]);
  expect(fromZero(0, 0)).toEqual([0, 0.12]);
});

test("volts and amps are of a rail that has both", () => {
  expect(voltsAndAmps({ volts: 12.0123, amps: 0.4321 })).toBe("12.012 V · 0.432 A");
  expect(voltsAndAmps({ volts: 12, amps: null })).toBe("–");
  expect(voltsAndAmps({})).toBe("–");
});
