// SPDX-License-Identifier: GPL-3.0-or-later
import { expect, test } from "vitest";
import { make } from "../dom/elements";
import { machine } from "../rig/page";
import { adoption, calibration, hosts, hostState, ownPower, services, wear } from "../rig/tables";
import type { RigHost } from "../link/replies";

const host = (more: Partial<RigHost> = {}) =>
  ({ name: "vhost1", address: "10.0.0.1", virtual: true, state: "reporting", age_seconds: 1, kernel: "6.1", cpus: 2, cpu_busy: 0.5, memory_used_bytes: 5e8, package_watts: null, agent: { cpu: 0.012, spooled_bytes: 0 }, clock: { offset_seconds: 0, error_seconds: 0.00015, age_seconds: 1 }, reservation: null, runs: [], ...more }) as RigHost;
const cells = (place: HTMLElement) => [...place.querySelectorAll("tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent));

test("a host that is silent is grey and says since when", () => {
  expect(hostState(host())).toBe("● reporting");
  expect(hostState(host({ state: "silent", age_seconds: 300 }))).toBe("✕ silent, last 5 min ago");
  expect(hostState(host({ state: "unknown", age_seconds: null }))).toBe("? unknown");
  const place = make("div");
  hosts(place, [host(), host({ name: "b", state: "silent" })]);
  expect([...place.querySelectorAll("tbody tr")].map((row) => row.className)).toEqual(["good", "old"]);
  expect(cells(place)[0]).toEqual(["vhost1 (virtual)", "● reporting", "10.0.0.1", "6.1", "0.500 of 2", "500 MB", "1.2 %", "0 B", "–", "150 µs", "no", "–"]);
});

test("a drive's wear has what is known", () => {
  expect(wear({ health: null, rated_bytes: null })).toBe("–");
  expect(wear({ health: { temperature_celsius: 41.4, percentage_used: 3, data_units_written_bytes: 2e12, media_errors: 0 }, rated_bytes: 6e14 })).toBe("41 °C · 3 % used · 2.00 TB written of 600 TB");
  expect(wear({ health: { media_errors: 2, age_seconds: 7200 }, rated_bytes: null })).toBe("▲ 2 media errors (2 h ago)");
});

test("a drive's own power stands next to its rails'", () => {
  expect(ownPower(null)).toBe("–");
  expect(ownPower({ watts: 4.1, rails_watts: 4, age_seconds: 12 })).toBe("4.10 W (rails 4.00 W, +2.50 %), 12 s ago");
  expect(ownPower({ watts: 4.1, rails_watts: null, age_seconds: 12 })).toBe("4.10 W (rails not measured), 12 s ago");
  expect(ownPower({ watts: 4.1, rails_watts: 0, age_seconds: 12 })).toBe("4.10 W (rails 0 W), 12 s ago");
});

test("a calibration has its state, its date and why", () => {
  expect(calibration({ state: null, reason: null, date: null, expires: null })).toBe("none");
  expect(calibration({ state: "valid", reason: null, date: "2026-01-01", expires: "2027-01-01" })).toBe("valid · until 2027-01-01");
});

test("the machine's watts, or why there are none", () => {
  expect(machine({ processors: 4, cpu_fraction: 1.5, package_watts: 12.3, why: "" })).toBe("this machine: 1.50 of 4 processors busy; 12.3 W of its processor packages, shared by processor time");
  expect(machine({ processors: 4, cpu_fraction: null, package_watts: null, why: "no RAPL" })).toBe("watts unknown: no RAPL");
});

test("a service that is gone leaves its table", () => {
  const place = make("div");
  const service = { name: "powerd", part: "rig", pid: 7, cpu_fraction: 0.25, over_seconds: 3, rss_bytes: 2e7, watts: null };
  services(place, [service, { ...service, name: "influxd", pid: 8 }]);
  services(place, [service]);
  expect(cells(place)).toEqual([["powerd", "rig", "7", "25 %", "20.0 MB", "–"]]);
  services(place, []);
  expect(place.textContent).toContain("No service runs here");
});

test("a drive's adoption is what a playbook found last", () => {
  expect(adoption(null)).toBe("? no playbook looked yet");
  expect(adoption({ may_be_wiped: true, why: "blank", holds: null, age_seconds: 60 })).toBe("● may be wiped: blank, 60 s ago");
  expect(adoption({ may_be_wiped: false, why: "holds ext4", holds: "ext4", age_seconds: 300 })).toBe("✕ may not be wiped: holds ext4, 5 min ago");
});
