// SPDX-License-Identifier: GPL-3.0-or-later
// How long requests and operations take: of the block layer its means, of a load its quantiles.
import * as phases from "../charts/phases";
import { setText } from "../dom/elements";
import type { Load } from "../link/messages";
import type { Window } from "../link/window";
import { latency } from "../text/format";

// Columns of an I/O section (rig/dashboard/feed.py): requests a second, and the seconds that they
// took, a second. Their means over the same time give the mean of a request.
export const REQUESTS = [
  { name: "read", rate: 0, took: 5 },
  { name: "write", rate: 1, took: 6 },
  { name: "flush", rate: 2, took: 7 },
] as const;
const MOST_CLASSES = 3; // that took most of the load's time; the others are in the title

let loads: Load[] = [];

export function setLoads(newest: Load[]): void {
  loads = newest;
}

// Mean seconds of a request over the newest second: null where there was none, or no figures.
export function meanSeconds(window: Window, channel: number, { rate, took }: (typeof REQUESTS)[number]): number | null {
  const requests = window.recent(channel, rate);
  const seconds = window.recent(channel, took);
  return requests && seconds !== null ? seconds / requests : null;
}

// The block layer's means in words. `channel` is null where the host reports no I/O of the drive.
export function describeRequests(window: Window, channel: number | null): string {
  if (channel === null) return "requests: latency not measured";
  if (window.recent(channel, 0) === null) return "requests: no figures now";
  const parts = REQUESTS.map((one) => [one.name, meanSeconds(window, channel, one)] as const).filter(([, seconds]) => seconds !== null);
  if (parts.length) return `mean of a request: ${parts.map(([name, seconds]) => `${name} ${latency(seconds)}`).join(" · ")}`;
  const some = REQUESTS.some(({ rate }) => window.recent(channel, rate));
  return some ? "requests: latency not measured" : "no requests";
}

export interface Quantiles {
  lines: string[];
  title: string;
}

// A load's quantiles, of the newest second that it reported; `running` says that there is a load.
export function describeLoad(load: Load | undefined, running: boolean): Quantiles {
  if (!load) return { lines: running ? ["load: no figures yet"] : [], title: "" };
  const classes = Object.entries(load.classes).sort(([, a], [, b]) => (b.seconds ?? 0) - (a.seconds ?? 0));
  const lines = classes
    .filter(([, { p99 }]) => p99 !== undefined)
    .map(([name, { p50, p99, max }]) => `${name}: p50 ${latency(p50)} · p99 ${latency(p99)} · most ${latency(max)}`);
  if (!lines.length) return { lines: ["quantiles: not measured by this load"], title: "" };
  return { lines: lines.slice(0, MOST_CLASSES), title: `run ${load.run}, in the second that ended ${Math.max(0, Math.round(load.age_seconds))} s ago\n${lines.join("\n")}` };
}

export const loadOf = (host: string, drive: string): Load | undefined =>
  loads.find((load) => load.host === host && phases.isPartOf(host, drive, load.drive));

export function show(element: HTMLElement, window: Window, channel: number | null, host: string, drive: string): void {
  const running = phases.driveBands(host, drive).some(({ phase, end_ns }) => phase === "workload" && end_ns === null);
  const { lines, title } = describeLoad(loadOf(host, drive), running);
  setText(element, [...lines, describeRequests(window, channel)].join("\n"));
  element.title = title;
}
