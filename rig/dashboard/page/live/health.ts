// SPDX-License-Identifier: GPL-3.0-or-later
// A drive's temperature, power state and wear, as its host last reported them, with their age.
import { setText } from "../dom/elements";
import { addressOf, poll } from "../link/api";
import type { Health, Rig, RigDrive } from "../link/replies";
import { age } from "../text/format";

const EVERY_SECONDS = 10; // hosts read it once a minute
const OLD_SECONDS = 180;

let newest: RigDrive[] = [];

// Also when cards were rebuilt: the next reply is seconds away.
export function draw(): void {
  for (const { host, name, health } of newest) show(host, name, health);
}

export function start(): void {
  poll<Rig>({
    address: () => addressOf("/api/rig"),
    everySeconds: EVERY_SECONDS,
    onReply: ({ drives }) => {
      newest = drives;
      draw();
    },
    onProblem: (why) => {
      for (const line of document.querySelectorAll<HTMLElement>(".card .health")) {
        line.classList.add("old");
        line.title = why;
      }
    },
  });
}

function show(host: string, drive: string, health: Health | null): void {
  const card = document.querySelector(`.card[data-host="${CSS.escape(host)}"][data-drive="${CSS.escape(drive)}"]`);
  const line = card?.querySelector<HTMLElement>(".health");
  if (!line) return;
  const { text, old } = describe(health);
  setText(line, text);
  line.classList.toggle("old", old);
  line.title = "as the test host reported";
}

export function describe(health: Health | null): { text: string; old: boolean } {
  if (!health) return { text: "", old: false };
  const old = (health.age_seconds ?? 0) > OLD_SECONDS;
  const parts = [
    health.temperature_celsius == null ? "" : `${Math.round(health.temperature_celsius)} °C`,
    health.power_state == null ? "" : `power state ${health.power_state}`,
    health.percentage_used == null ? "" : `${health.percentage_used} % used`,
    health.media_errors ? `▲ ${health.media_errors} media errors` : "",
    old ? age(health.age_seconds) : "",
  ];
  return { text: parts.filter(Boolean).join(" · "), old };
}
