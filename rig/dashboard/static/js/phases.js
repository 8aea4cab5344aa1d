// SPDX-License-Identifier: GPL-3.0-or-later
// Phases of runs as shaded bands behind a trace.
import { PHASES, PRECONDITIONING } from "./names.js";
import { colour } from "./theme.js";

let bands = [];
let arrays = {};

let campaignDrives = new Set(); // "host/drive" of the drives that the campaign is about

export const setBands = (list) => (bands = list);

// Notes the campaign's drives and arrays; true when that changes the order in which drives are
// shown.
export function setCampaign(message) {
  arrays = message.arrays || {};
  const before = [...campaignDrives].join();
  campaignDrives = new Set();
  for (const { host, drive, journal } of message.runs || [])
    for (const member of [...(arrays[host]?.[drive] ?? [drive]), ...(journal ? [journal] : [])])
      campaignDrives.add(host + "/" + member);
  return [...campaignDrives].join() !== before;
}

// Drives of the campaign first, then by name.
export const inOrder = (a, b) =>
  campaignDrives.has(b.key) - campaignDrives.has(a.key) || a.key.localeCompare(b.key, undefined, { numeric: true });
// The name of a phase's colour.
const phaseShade = (phase) => (PRECONDITIONING.includes(phase) ? "setup" : PHASES.includes(phase) ? phase : "prepare");
export const runBands = (run) => bands.filter((band) => band.run === run);

// The bands of a drive: of runs on it, and on an array that it is a member of.
export function driveBands(host, drive) {
  return bands.filter(
    (band) => band.host === host && (band.drive === drive || arrays[host]?.[band.drive]?.includes(drive)),
  );
}

// A uPlot hook that shades the bands `list()` gives, with their names where there is room.
export function shade(list) {
  return (u) => {
    const { ctx, bbox } = u;
    const { min, max } = u.scales.x;
    if (min === null || min === undefined) return;
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
