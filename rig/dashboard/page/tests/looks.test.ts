// SPDX-License-Identifier: GPL-3.0-or-later
import { expect, test } from "vitest";
import { driveClass, driveDash, driveLooks, LOOKS } from "../dom/looks";

const names = (count: number) => Array.from({ length: count }, (_, i) => `vhost1/drive-${i}`);

test("no two drives share a look while there are enough", () => {
  const looks = driveLooks(names(LOOKS));
  expect(new Set(looks.values()).size).toBe(LOOKS);
  expect(new Set([...looks.values()].map(driveClass)).size).toBe(LOOKS);
});

test("more drives than looks all have one", () => {
  const looks = driveLooks(names(LOOKS + 5));
  expect(looks.size).toBe(LOOKS + 5);
  expect([...looks.values()].every((look) => look < LOOKS)).toBe(true);
});

test("a look does not depend on the order", () => {
  const list = names(10);
  expect(driveLooks(list.toReversed())).toEqual(driveLooks(list));
});

test("a drive alone has the look that it has among others that take none of it", () => {
  const [alone] = driveLooks(["vhost1/hdd-1"]).values();
  const together = driveLooks(["vhost1/hdd-1", "vhost1/nvme-plp"]);
  expect(together.get("vhost1/hdd-1")).toBe(alone);
});

test("looks of one colour differ in their dash", () => {
  expect([0, 8, 16].map(driveClass)).toEqual(["drive-0", "drive-0 dashed", "drive-0 dotted"]);
  expect([0, 8, 16].map(driveDash)).toEqual([undefined, [5, 3], [1.5, 2.5]]);
});
