// SPDX-License-Identifier: GPL-3.0-or-later
import { beforeEach, describe, expect, test } from "vitest";
import type { Meter } from "../link/messages";
import { draw, ledger, meterClass, residual } from "../live/meters";
import { note } from "../live/trust";

const meter = (more: Partial<Meter> = {}): Meter => ({
  name: "tap1a",
  state: "streaming",
  reason: "",
  lost_percent: 0,
  gap_seconds: 0,
  clock_residual_seconds: -0.000143,
  observed_rate_hz: 1000.02,
  unaccounted: 0,
  ...more,
});
const place = () => document.getElementById("meters")!;

beforeEach(() => {
  document.body.innerHTML = '<div id="meters"></div>';
});

describe("the table of meters", () => {
  test("has a row for each", () => {
    draw({ ok: true, message: "", meters: [meter(), meter({ name: "tap1b", state: "silent", reason: "no frame" })] });
    const rows = [...place().querySelectorAll("tbody tr")];
    expect(rows.map((row) => row.className)).toEqual(["good", "bad"]);
    expect([...rows[0]!.children].map((cell) => cell.textContent)).toEqual([
      "tap1a", "● streaming", "0 %", "0 s", "143 µs", "1000 Hz", "● balanced",
    ]);
    expect((rows[1] as HTMLElement).title).toBe("no frame");
  });

  test("says that powerd is away, and comes back", () => {
    draw({ ok: false, message: "gone", meters: [] });
    expect(place().textContent).toBe("Unknown: powerd does not answer.");
    draw({ ok: true, message: "", meters: [] });
    expect(place().textContent).toBe("No meter configured.");
    draw({ ok: true, message: "", meters: [meter()] });
    expect(place().querySelectorAll("tbody tr")).toHaveLength(1);
  });
});

test.each<[Partial<Meter>, string]>([
  [{}, "good"],
  [{ lost_percent: 0.1 }, "warn"],
  [{ gap_seconds: 1 }, "warn"],
  [{ lost_percent: null, gap_seconds: null }, "good"],
  [{ state: "starting" }, "warn"],
  [{ state: "failed" }, "bad"],
])("a meter with %o is %s", (more, kind) => expect(meterClass(meter(more))).toBe(kind));

test("a ledger balances, or says by how much not", () => {
  expect(ledger(0)).toBe("● balanced");
  expect(ledger(-5000)).toBe("▲ -5000 unaccounted for");
  expect(ledger(null)).toBe("–");
});

test("a clock's residual has no sign", () => {
  expect(residual(-0.002)).toBe("2.0 ms");
  expect(residual(null)).toBe("–");
});

describe("what a rail's value is worth", () => {
  const known = { age_seconds: 0.4, lost_percent: 0, gap_seconds: 0, clock_residual_seconds: 0.000143 };

  test("is good while nothing is lost", () => {
    expect(note("tap1a", 5, known, meter())).toMatchObject({ kind: "good", text: "● lost 0 % · gap 0 s · ±143 µs" });
  });

  test("is flagged when samples were lost", () => {
    expect(note("tap1a", 5, { ...known, lost_percent: 2 }, meter())).toMatchObject({ kind: "warn", text: "▲ lost 2.00 % · gap 0 s · ±143 µs" });
  });

  test("is bad without a reading, with its age", () => {
    expect(note("tap1a", null, { ...known, age_seconds: 7.4 }, meter()).text).toBe("✕ tap1a: no reading for 7 s");
    expect(note("tap1a", null, {}, undefined).text).toBe("✕ tap1a: no reading");
  });

  test("is the meter's reason where it does not stream", () => {
    const silent = meter({ state: "silent", reason: "no frame for 5 s" });
    expect(note("tap1a", 5, known, silent)).toMatchObject({ kind: "bad", text: "✕ tap1a silent: no frame for 5 s" });
    expect(note("tap1a", null, { ...known, age_seconds: 130 }, silent).text).toBe("✕ tap1a silent for 2 min: no frame for 5 s");
  });
});
