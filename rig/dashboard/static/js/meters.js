// SPDX-License-Identifier: GPL-3.0-or-later
// The meters, as the power daemon reports them.
import { id, keyed, make, setText } from "./dom.js";
import { number, percent, shortSeconds } from "./format.js";

const SYMBOLS = { streaming: "●", starting: "…", silent: "✕", failed: "✕" };

export function draw(status) {
  const place = id("meters");
  if (!status.ok || !status.meters.length) {
    place.replaceChildren(make("p", { class: "empty" }, status.ok ? "No meter configured." : "Unknown: powerd does not answer."));
    return;
  }
  place.querySelector(".empty")?.remove();
  if (!place.firstElementChild) {
    const names = ["Meter", "State", "Lost", "Gaps", "Clock ±", "Rate", "Ledger"];
    place.append(
      make("table", {}, make("thead", {}, make("tr", {}, ...names.map((name) => make("th", {}, name)))), make("tbody")),
    );
  }
  keyed(
    place.querySelector("tbody"),
    status.meters,
    (meter) => meter.name,
    (meter) => make("tr", { "data-meter": meter.name }, ...Array.from({ length: 7 }, () => make("td"))),
    (row, meter) => {
      row.className = meter.state === "streaming" ? (meter.lost_percent > 0 || meter.gap_seconds > 0 ? "warn" : "good") : meter.state === "starting" ? "warn" : "bad";
      row.title = meter.reason || "";
      [
        meter.name,
        `${SYMBOLS[meter.state] ?? "?"} ${meter.state}`,
        percent(meter.lost_percent),
        shortSeconds(meter.gap_seconds),
        shortSeconds(meter.clock_residual_seconds == null ? null : Math.abs(meter.clock_residual_seconds)),
        `${number(meter.observed_rate_hz, 4)} Hz`,
        meter.unaccounted == null ? "–" : meter.unaccounted === 0 ? "● balanced" : `▲ ${meter.unaccounted} unaccounted for`,
      ].forEach((text, i) => setText(row.children[i], text));
    },
  );
}
