// SPDX-License-Identifier: GPL-3.0-or-later
// Stretches of a trace without values, hatched behind it: a gap is seen, not guessed.
import type uPlot from "uplot";
import { colour } from "../dom/theme";

export interface Stretch {
  start: number;
  end: number;
}

// The stretches between values where any row has none, longer than `least` seconds. What is before
// the first value and after the last one is no gap: nothing was measured yet, or it is on its way.
export function findGaps(times: ArrayLike<number>, rows: readonly ArrayLike<number | null | undefined>[], least: number): Stretch[] {
  const found: Stretch[] = [];
  for (const row of rows) {
    let last: number | null = null;
    for (let i = 0; i < times.length; i++) {
      const value = row[i];
      const time = times[i];
      if (value === null || value === undefined || time === undefined) continue;
      if (last !== null && time - last > least) found.push({ start: last, end: time });
      last = time;
    }
  }
  return merge(found);
}

function merge(stretches: Stretch[]): Stretch[] {
  const merged: Stretch[] = [];
  for (const one of stretches.sort((a, b) => a.start - b.start)) {
    const last = merged.at(-1);
    if (last && one.start <= last.end) last.end = Math.max(last.end, one.end);
    else merged.push({ ...one });
  }
  return merged;
}

const HATCH_PIXELS = 6;

// Hatches the stretches in the plot's area.
export function hatch(u: uPlot, stretches: readonly Stretch[]): void {
  const { ctx, bbox } = u;
  const min = u.scales.x?.min;
  const max = u.scales.x?.max;
  if (min === undefined || max === undefined) return;
  for (const { start, end } of stretches) {
    const left = u.valToPos(Math.max(start, min), "x", true);
    const right = u.valToPos(Math.min(end, max), "x", true);
    if (right <= left) continue;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, bbox.top, right - left, bbox.height);
    ctx.clip();
    ctx.strokeStyle = colour("idle");
    ctx.globalAlpha = 0.45;
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    const step = HATCH_PIXELS * devicePixelRatio;
    for (let x = left - bbox.height; x < right; x += step) {
      ctx.moveTo(x, bbox.top + bbox.height);
      ctx.lineTo(x + bbox.height, bbox.top);
    }
    ctx.stroke();
    ctx.restore();
  }
}
