// SPDX-License-Identifier: GPL-3.0-or-later
import { describe, expect, test } from "vitest";
import { STATUSES } from "../generated/names";
import type { Run } from "../link/messages";
import { cellText, countsText, figure, SYMBOLS, took } from "../live/queue";

const run = (more: Partial<Run> = {}): Run => ({
  id: "a-0001",
  ordinal: 1,
  host: "vhost1",
  drive: "nvme-plp",
  filesystem: "ext4",
  scheduler: "none",
  workload: "varmail",
  replicate: 1,
  status: "ok",
  reason: "",
  started_ns: 1e9,
  ended_ns: 31e9,
  ...more,
});

test("each status has a symbol, and no two share one", () => {
  expect(Object.keys(SYMBOLS).sort()).toEqual([...STATUSES].sort());
  expect(new Set(Object.values(SYMBOLS)).size).toBe(STATUSES.length);
});

test("counts are those that are not zero", () => {
  expect(countsText({ planned: 16, running: 1, ok: 19, failed: 0 })).toBe("○ 16 planned  ▶ 1 running  ✓ 19 ok");
});

describe("a cell is named by what differs", () => {
  test.each([
    [{ hosts: false, workloads: false }, {}, "nvme-plp / ext4 / none"],
    [{ hosts: true, workloads: false }, {}, "vhost1 / nvme-plp / ext4 / none"],
    [{ hosts: false, workloads: true }, {}, "nvme-plp / ext4 / none / varmail"],
    [{ hosts: false, workloads: false }, { journal: "nvdimm" }, "nvme-plp / ext4 / none / journal on nvdimm"],
  ])("%o %o", (shown, more, text) => expect(cellText(run(more), shown)).toBe(text));
});

test("a run took a time when it is over", () => {
  expect(took(run())).toBe("0:30");
  expect(took(run({ ended_ns: null }))).toBe("");
});

test.each<[Partial<Run>, string]>([
  [{ ops_per_joule: 123.4, ops_per_second: 9 }, "123 ops/J"],
  [{ ops_per_joule: null, ops_per_second: 950 }, "950 ops/s"],
  [{ status: "partial", ops_per_joule: null, ops_per_second: 950 }, ""],
  [{}, ""],
])("a run with %o has the figure %s", (more, text) => expect(figure(run(more))).toBe(text));
