// SPDX-License-Identifier: GPL-3.0-or-later
import { beforeEach, expect, test } from "vitest";
import { driveBands, inOrder, phaseShade, runBands, setBands, setCampaign } from "../charts/phases";
import type { Band, CampaignMessage } from "../link/messages";

const band = (run: string, drive: string, phase = "workload"): Band => ({ campaign: "a", run, host: "h", drive, phase, start_ns: 0, end_ns: null });
const campaign = (...drives: string[]) =>
  ({
    kind: "campaign",
    found: true,
    arrays: { h: { array: ["hdd-1", "hdd-2"] } },
    runs: drives.map((drive) => ({ host: "h", drive })),
  }) as unknown as CampaignMessage;

beforeEach(() => {
  setBands([band("a-1", "nvme"), band("a-2", "array")]);
  setCampaign(campaign("nvme"));
});

test("a drive has the bands of its runs and of its array's", () => {
  expect(driveBands("h", "nvme").map((one) => one.run)).toEqual(["a-1"]);
  expect(driveBands("h", "hdd-2").map((one) => one.run)).toEqual(["a-2"]);
  expect(driveBands("other", "nvme")).toEqual([]);
});

test("a run has its bands", () => expect(runBands("a-2").map((one) => one.drive)).toEqual(["array"]));

test("drives of the campaign come first, then by name and number", () => {
  setCampaign(campaign("array"));
  const keys = ["h/hdd-10", "h/hdd-9", "h/hdd-2", "h/a"].map((key) => ({ key }));
  expect(keys.sort(inOrder).map(({ key }) => key)).toEqual(["h/hdd-2", "h/a", "h/hdd-9", "h/hdd-10"]);
});

test("the order changes when the campaign's drives do", () => {
  expect(setCampaign(campaign("nvme"))).toBe(false);
  expect(setCampaign(campaign("array"))).toBe(true);
});

test.each([
  ["workload", "workload"],
  ["rounds", "setup"],
  ["no longer a phase", "prepare"],
])("phase %s has the shade of %s", (phase, shade) => expect(phaseShade(phase)).toBe(shade));

test("a drive with a run's journal is one of the campaign", () => {
  const message = campaign("nvme");
  Object.assign(message.found ? message.runs[0]! : {}, { journal: "nvdimm" });
  setCampaign(message);
  const keys = ["h/a", "h/nvdimm", "h/nvme"].map((key) => ({ key }));
  expect(keys.sort(inOrder).map(({ key }) => key)).toEqual(["h/nvdimm", "h/nvme", "h/a"]);
});
