// SPDX-License-Identifier: GPL-3.0-or-later
// A drive's temperature and wear as its host last reported them, and the power state that its last
// run recorded, with their ages.
import { setText } from "../dom/elements";
import { addressOf, poll } from "../link/api";
import type { Rig, RigDrive } from "../link/replies";
import { age, number } from "../text/format";

const EVERY_SECONDS = 10; // hosts read it once a minute
const OLD_SECONDS = 180;

let newest: RigDrive[] = [];

// Also when cards were rebuilt: the next reply is seconds away.
export function draw(): void {
  for (const drive of newest) show(drive);
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

function show(drive: RigDrive): void {
  const card = document.querySelector(`.card[data-host="${CSS.escape(drive.host)}"][data-drive="${CSS.escape(drive.name)}"]`);
  const line = card?.querySelector<HTMLElement>(".health");
  if (!line) return;
  const { text, old } = describe(drive);
  setText(line, text);
  line.classList.toggle("old", old);
  line.title = "as the test host reported; the power state as the last run recorded it";
}

export function describe({ health, seen }: Pick<RigDrive, "health" | "seen">): { text: string; old: boolean } {
  const old = (health?.age_seconds ?? 0) > OLD_SECONDS;
  const parts = [
    health?.temperature_celsius == null ? "temperature not measured" : `${Math.round(health.temperature_celsius)} °C`,
    health?.percentage_used == null ? "" : `${health.percentage_used} % used`,
    health?.media_errors ? `▲ ${health.media_errors} media errors` : "",
    old ? age(health?.age_seconds) : "",
    powerState(seen),
  ];
  return { text: parts.filter(Boolean).join(" · "), old };
}

// No agent asks a drive for its state, which could wake it: runs record it, before their load.
export function powerState(seen: RigDrive["seen"]): string {
  const state = seen?.power_state;
  if (!seen || !state) return "power state not measured";
  const most = state.most_watts === null ? "" : ` (≤ ${number(state.most_watts)} W)`;
  return `power state ${state.number}${most}, ${age(seen.age_seconds)}`;
}
