// SPDX-License-Identifier: GPL-3.0-or-later
// The meters, as the power daemon reports them.
import { emptiness, id, keyed, make, setText, within } from "../dom/elements";
import type { Meter, PowerStatus } from "../link/messages";
import { number, percent, shortSeconds } from "../text/format";

const SYMBOLS: Record<string, string> = { streaming: "●", starting: "…", silent: "✕", failed: "✕" };
const HEADS = ["Meter", "State", "Lost", "Gaps", "Clock ±", "Rate", "Ledger"];

export function draw(status: PowerStatus): void {
  const place = id("meters");
  const nothing = status.ok ? "No meter configured." : "Unknown: powerd does not answer.";
  emptiness(place, status.meters.length ? null : nothing);
  if (!status.meters.length) return;
  if (!place.firstElementChild)
    place.append(
      make(
        "table",
        {},
        make("thead", {}, make("tr", {}, ...HEADS.map((name) => make("th", { scope: "col" }, name)))),
        make("tbody"),
      ),
    );
  keyed(
    within(place, "tbody"),
    status.meters,
    (meter) => meter.name,
    (meter) => make("tr", { "data-meter": meter.name }, ...HEADS.map(() => make("td"))),
    (row, meter) => {
      row.className = meterClass(meter);
      row.title = meter.reason ?? "";
      figures(meter).forEach((text, i) => setText(row.children[i]!, text));
    },
  );
}

export function meterClass({ state, lost_percent, gap_seconds }: Meter): "good" | "warn" | "bad" {
  if (state === "streaming") return (lost_percent ?? 0) > 0 || (gap_seconds ?? 0) > 0 ? "warn" : "good";
  return state === "starting" ? "warn" : "bad";
}

export const meterState = (state: string): string => `${SYMBOLS[state] ?? "?"} ${state}`;

export function ledger(unaccounted: number | null | undefined): string {
  if (unaccounted === null || unaccounted === undefined) return "–";
  return unaccounted === 0 ? "● balanced" : `▲ ${unaccounted} unaccounted for`;
}

export const residual = (seconds: number | null | undefined): string =>
  shortSeconds(seconds === null || seconds === undefined ? seconds : Math.abs(seconds));

function figures(meter: Meter): string[] {
  return [
    meter.name,
    meterState(meter.state),
    percent(meter.lost_percent),
    shortSeconds(meter.gap_seconds),
    residual(meter.clock_residual_seconds),
    `${number(meter.observed_rate_hz, 4)} Hz`,
    ledger(meter.unaccounted),
  ];
}
