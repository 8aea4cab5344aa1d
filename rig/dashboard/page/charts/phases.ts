// SPDX-License-Identifier: GPL-3.0-or-later
// Phases of runs as shaded bands behind a trace.
import type uPlot from "uplot";
import { colour } from "../dom/theme";
import { PHASES, PRECONDITIONING } from "../generated/names";
import type { Arrays, Band, CampaignMessage } from "../link/messages";

let bands: Band[] = [];
let arrays: Arrays = {};
let campaignDrives = new Set<string>(); // "host/drive" of the drives that the campaign is about

export function setBands(list: Band[]): void {
  bands = list;
}

// Notes the campaign's drives and arrays; true when that changes the order in which drives are
// shown.
export function setCampaign(message: CampaignMessage): boolean {
  arrays = message.found ? message.arrays : {};
  const before = [...campaignDrives].join();
  campaignDrives = new Set();
  for (const { host, drive, journal } of message.found ? message.runs : [])
    for (const member of [...(arrays[host]?.[drive] ?? [drive]), ...(journal ? [journal] : [])])
      campaignDrives.add(host + "/" + member);
  return [...campaignDrives].join() !== before;
}

// Drives of the campaign first, then by name.
export const inOrder = (a: { key: string }, b: { key: string }): number =>
  Number(campaignDrives.has(b.key)) - Number(campaignDrives.has(a.key)) ||
  a.key.localeCompare(b.key, undefined, { numeric: true });

// The name of a phase's colour.
const shades: readonly string[] = PHASES;
const preconditioning: readonly string[] = PRECONDITIONING;
export const phaseShade = (phase: string): string =>
  preconditioning.includes(phase) ? "setup" : shades.includes(phase) ? phase : "prepare";

export const runBands = (run: string): Band[] => bands.filter((band) => band.run === run);

// The bands of a drive: of runs on it, and on an array that it is a member of.
export const driveBands = (host: string, drive: string, of: readonly Band[] = bands): Band[] =>
  of.filter((band) => band.host === host && isPartOf(host, drive, band.drive));

// Whether a drive is what a run is on, or a member of the array that it is on.
export const isPartOf = (host: string, drive: string, target: string): boolean =>
  target === drive || (arrays[host]?.[target]?.includes(drive) ?? false);

// A uPlot hook that shades the bands `list()` gives, with their names where there is room.
export function shade(list: () => readonly Band[]) {
  return (u: uPlot): void => {
    const { ctx, bbox } = u;
    const min = u.scales.x?.min;
    const max = u.scales.x?.max;
    if (min === undefined || max === undefined) return;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.font = `${9 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    for (const band of list()) {
      const start = Math.max(band.start_ns / 1e9, min);
      const end = Math.min(band.end_ns === null ? max : band.end_ns / 1e9, max);
      if (end <= start) continue;
      const left = u.valToPos(start, "x", true);
      const width = u.valToPos(end, "x", true) - left;
      ctx.fillStyle = colour("phase-" + phaseShade(band.phase));
      ctx.fillRect(left, bbox.top, width, bbox.height);
      if (ctx.measureText(band.phase).width + 6 * ratio < width) {
        ctx.fillStyle = colour("muted");
        ctx.fillText(band.phase, left + 3 * ratio, bbox.top + 2 * ratio);
      }
    }
    ctx.restore();
  };
}
