// SPDX-License-Identifier: GPL-3.0-or-later
// The story of one campaign: its plan as it fills, what it cost, what went wrong.
import { longView, type LongView } from "../charts/longview";
import { id, setText } from "../dom/elements";
import { addressOf, poll } from "../link/api";
import { now } from "../link/clock";
import type { CampaignMessage, DriveName, FoundCampaign } from "../link/messages";
import type { CampaignDetail } from "../link/replies";
import * as hosts from "../live/hosts";
import * as notices from "../shell/notices";
import * as controls from "./controls";
import * as plan from "./plan";
import * as story from "./story";

const EVERY_SECONDS = 3;
const OLD_SECONDS = 10;
let shown: FoundCampaign | null = null;
let long: LongView;
let ask: () => void = () => undefined;

export function start(): void {
  controls.start();
  long = longView();
  ask = poll<CampaignDetail>({
    address: () => (shown ? addressOf("/api/campaign", { campaign: shown.id }) : null),
    everySeconds: EVERY_SECONDS,
    onReply: (detail) => {
      if (detail.id !== shown?.id) return;
      old(false);
      notices.setOwn([]);
      plan.show(detail.cells);
      story.show(detail);
      controls.showResuming(detail.resuming);
    },
    onProblem: (why, age) => {
      old(age === null || age > OLD_SECONDS);
      notices.setOwn([["warn", `The campaign's figures cannot be read: ${why}.`]]);
    },
  });
}

const old = (is: boolean) => id("page").classList.toggle("stale", is);

export function onCampaign(message: CampaignMessage): void {
  const changed = (message.found ? message.id : null) !== shown?.id;
  shown = message.found ? message : null;
  hosts.set(message);
  controls.show(shown);
  story.showRuns(shown?.runs ?? []);
  long.setDrives(shown ? drivesOf(shown) : []);
  if (!changed) return;
  ask();
  if (message.found) long.showWhenTimeIsKnown(() => span(message, now()));
}

// From the campaign's beginning to its end, or now.
export function span({ created_ns, started_ns, finished_ns }: FoundCampaign, labSeconds: number): { from: number; to: number } {
  const from = (started_ns ?? created_ns) / 1e9;
  return { from, to: Math.max(from + 1, finished_ns === null ? labSeconds : finished_ns / 1e9) };
}

// The campaign's drives; of an array, its members, which have the rails.
export function drivesOf({ runs, arrays }: Pick<FoundCampaign, "runs" | "arrays">): DriveName[] {
  return runs.flatMap(({ host, drive }) => (arrays[host]?.[drive] ?? [drive]).map((one) => ({ host, drive: one })));
}

export function draw(): void {
  hosts.draw();
  if (shown) setText(id("eta-wall"), wallTime(shown, now(), Date.now()));
}

// When a campaign is over by this machine's clock, as far as can be said: the lab's may be slow.
export function wallTime({ finished_ns, eta_ns, eta_at_most }: FoundCampaign, labSeconds: number, wallMs: number): string {
  if (finished_ns) return "over";
  if (eta_ns === null) return "after the first run";
  const left = Math.max(0, eta_ns / 1e9 - labSeconds);
  const at = new Date(wallMs + left * 1000);
  return (eta_at_most ? "by " : "about ") + at.toTimeString().slice(0, 5) + (left > 86400 ? ` on ${at.toDateString()}` : "");
}
