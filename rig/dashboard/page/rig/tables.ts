// SPDX-License-Identifier: GPL-3.0-or-later
// The tables of the rig's page. What is old is grey, and says how old.
import { showTable } from "../dom/table";
import type { RigDrive, RigHost, RigMeter, RigService } from "../link/replies";
import { ledger, meterClass, meterState, residual } from "../live/meters";
import { age, bytes, number, percent, share, shortSeconds } from "../text/format";

const HOST_SYMBOLS: Record<RigHost["state"], string> = { reporting: "●", silent: "✕", unknown: "?" };

export function hostState({ state, age_seconds }: Pick<RigHost, "state" | "age_seconds">): string {
  return `${HOST_SYMBOLS[state]} ${state}` + (state === "silent" ? `, last ${age(age_seconds)}` : "");
}

export function hosts(place: HTMLElement, list: RigHost[]): void {
  showTable(
    place,
    {
      caption: "Test hosts",
      keyOf: ({ name }) => name,
      empty: "No test host: 'rig up' reads the inventory.",
      kind: ({ state }) => (state === "reporting" ? "good" : "old"),
      columns: [
        { head: "Host", text: ({ name, virtual }) => name + (virtual ? " (virtual)" : "") },
        { head: "Agent", kind: () => "state", text: hostState },
        { head: "Address", text: ({ address }) => address ?? "–" },
        { head: "Kernel", text: ({ kernel }) => kernel ?? "–" },
        { head: "CPU busy", numeric: true, title: "processors at work", text: ({ cpu_busy, cpus }) => (cpu_busy === null ? "–" : `${number(cpu_busy)} of ${cpus ?? "?"}`) },
        { head: "Memory used", numeric: true, text: ({ memory_used_bytes }) => bytes(memory_used_bytes) },
        { head: "Agent's CPU", numeric: true, text: ({ agent }) => share(agent.cpu) },
        { head: "Spooled", numeric: true, title: "waiting for InfluxDB", text: ({ agent }) => bytes(agent.spooled_bytes) },
        { head: "Watts", numeric: true, title: "of its processor packages", text: ({ package_watts }) => number(package_watts) },
        { head: "Clock ±", numeric: true, title: "how far its clock can be off", text: ({ clock }) => residual(clock?.error_seconds) },
        { head: "Reserved", text: ({ reservation }) => reservation?.held.map(({ owner, purpose }) => [owner, purpose].filter(Boolean).join(": ")).join(", ") || "no" },
        { head: "Runs", text: ({ runs }) => runs.join(", ") || "–" },
      ],
    },
    list,
  );
}

export function wear({ health, rated_bytes }: Pick<RigDrive, "health" | "rated_bytes">): string {
  if (!health) return "–";
  const written = health.data_units_written_bytes ?? null;
  const parts = [
    health.temperature_celsius == null ? "" : `${Math.round(health.temperature_celsius)} °C`,
    health.percentage_used == null ? "" : `${health.percentage_used} % used`,
    written === null ? "" : `${bytes(written)} written` + (rated_bytes ? ` of ${bytes(rated_bytes)}` : ""),
    health.media_errors ? `▲ ${health.media_errors} media errors` : "",
  ];
  const text = parts.filter(Boolean).join(" · ") || "–";
  return health.age_seconds != null && health.age_seconds > 180 ? `${text} (${age(health.age_seconds)})` : text;
}

export function ownPower(own: RigDrive["own_power"]): string {
  if (!own) return "–";
  const rails = own.rails_watts === null ? "rails not measured" : `rails ${number(own.rails_watts)} W`;
  const off = own.rails_watts ? `, ${own.watts >= own.rails_watts ? "+" : "−"}${percent(Math.abs(100 * (own.watts / own.rails_watts - 1)))}` : "";
  return `${number(own.watts)} W (${rails}${off}), ${age(own.age_seconds)}`;
}

export function adoption(adopted: RigDrive["adopted"]): string {
  if (!adopted) return "? no playbook looked yet";
  return `${adopted.may_be_wiped ? "● may be wiped" : "✕ may not be wiped"}${adopted.why ? `: ${adopted.why}` : ""}, ${age(adopted.age_seconds)}`;
}

export function drives(place: HTMLElement, list: RigDrive[]): void {
  showTable(
    place,
    {
      caption: "Drives",
      keyOf: ({ host, name }) => host + "/" + name,
      empty: "No drive.",
      columns: [
        { head: "Drive", text: ({ name }) => name },
        { head: "Host", text: ({ host }) => host },
        { head: "Interface", text: (drive) => (drive.interface ?? "–") + (drive.plp ? ", PLP" : "") },
        { head: "Model", text: ({ model, firmware }) => [model, firmware].filter(Boolean).join(" · ") || "–" },
        { head: "Serial, WWN", text: ({ serial, wwn }) => [serial, wwn].filter(Boolean).join(" · ") || "–" },
        { head: "Size", numeric: true, text: ({ size_bytes }) => bytes(size_bytes) },
        { head: "Health", text: wear },
        { head: "Rails", text: ({ rails }) => rails.join(", ") || "none" },
        { head: "Own power", title: "a second's, as the drive reports it and as its rails have it; 'rig drives audit' judges it", text: ({ own_power }) => ownPower(own_power) },
        { head: "Lease", text: ({ lease }) => (lease ? `▶ ${lease.run}` : "free") },
        { head: "Adopted", text: ({ adopted }) => adoption(adopted) },
        { head: "Role", text: ({ roles }) => roles.join(", ") || "–" },
      ],
    },
    list,
  );
}

export function calibration({ state, reason, date, expires }: RigMeter["calibration"]): string {
  if (!state) return "none";
  const when = expires ? `until ${expires}` : date ? `of ${date}` : "";
  return [state, when, reason].filter(Boolean).join(" · ");
}

export function meters(place: HTMLElement, list: RigMeter[]): void {
  showTable(
    place,
    {
      caption: "Meters",
      keyOf: ({ name }) => name,
      empty: "No meter.",
      kind: (meter) => (meter.state === null ? "old" : meterClass({ ...meter, state: meter.state, reason: meter.reason ?? "" })),
      columns: [
        { head: "Meter", text: ({ name }) => name },
        { head: "Driver", text: ({ driver }) => driver ?? "–" },
        { head: "State", kind: () => "state", text: ({ state, reason }) => (state === null ? "? unknown" : meterState(state)) + (reason ? `: ${reason}` : "") },
        { head: "Rate", numeric: true, text: ({ observed_rate_hz, rate_hz }) => `${number(observed_rate_hz, 4)} of ${number(rate_hz, 4)} Hz` },
        { head: "Expected", numeric: true, text: ({ expected }) => count(expected) },
        { head: "Received", numeric: true, text: ({ received }) => count(received) },
        { head: "Lost", numeric: true, text: ({ lost, lost_percent }) => (lost ? `▲ ${count(lost)} (${percent(lost_percent)})` : count(lost)) },
        { head: "Gaps", numeric: true, text: ({ gap_seconds }) => shortSeconds(gap_seconds) },
        { head: "Ledger", text: ({ unaccounted }) => ledger(unaccounted) },
        { head: "Clock ±", numeric: true, text: ({ clock_residual_seconds }) => residual(clock_residual_seconds) },
        { head: "Calibration", text: ({ calibration: one }) => calibration(one) },
        { head: "Rails", text: ({ rails }) => rails.map(({ drive, rail }) => `${drive} ${rail}`).join(", ") || "–" },
      ],
    },
    list,
  );
}

const count = (value: number | null): string => (value === null ? "–" : value.toLocaleString("en"));

export function services(place: HTMLElement, list: RigService[]): void {
  showTable(
    place,
    {
      caption: "Services",
      keyOf: ({ name, pid }) => `${name}/${pid}`,
      empty: "No service runs here that 'rig up' started.",
      columns: [
        { head: "Service", text: ({ name }) => name },
        { head: "Of", text: ({ part }) => part },
        { head: "Pid", numeric: true, text: ({ pid }) => String(pid) },
        { head: "CPU", numeric: true, title: "of one processor", text: ({ cpu_fraction }) => share(cpu_fraction) },
        { head: "Memory", numeric: true, text: ({ rss_bytes }) => bytes(rss_bytes) },
        { head: "Watts", numeric: true, title: "its share of the processor packages' watts, by processor time", text: ({ watts }) => number(watts) },
      ],
    },
    list,
  );
}
