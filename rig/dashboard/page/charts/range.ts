// SPDX-License-Identifier: GPL-3.0-or-later
// A range of time that a person zooms and moves, in seconds since 1970 (UTC).
export interface Range {
  from: number;
  to: number;
}

export const LEAST_SECONDS = 2;
export const MOST_SECONDS = 400 * 86400; // as the server allows
const STEP = 0.25; // of a range, for one press of an arrow key

export const width = ({ from, to }: Range): number => to - from;

// Keeps a range's width within what can be shown, and its end from being in the future.
export function clamp({ from, to }: Range, newest: number): Range {
  const seconds = Math.min(MOST_SECONDS, Math.max(LEAST_SECONDS, to - from));
  const middle = (from + to) / 2;
  const end = Math.min(newest, middle + seconds / 2);
  return { from: end - seconds, to: end };
}

// Makes a range `factor` times as wide; what is at `at` stays where it is.
export function zoom({ from, to }: Range, factor: number, at: number, newest: number): Range {
  const seconds = Math.min(MOST_SECONDS, Math.max(LEAST_SECONDS, (to - from) * factor));
  const share = (at - from) / (to - from);
  const start = at - share * seconds;
  return clamp({ from: start, to: start + seconds }, newest);
}

export const move = (range: Range, seconds: number, newest: number): Range =>
  clamp({ from: range.from + seconds, to: range.to + seconds }, newest);

// The range after a key; null where the key means nothing here.
export function afterKey(range: Range, key: string, newest: number): Range | null {
  const middle = (range.from + range.to) / 2;
  switch (key) {
    case "ArrowLeft":
      return move(range, -STEP * width(range), newest);
    case "ArrowRight":
      return move(range, STEP * width(range), newest);
    case "PageUp":
      return move(range, -width(range), newest);
    case "PageDown":
      return move(range, width(range), newest);
    case "+":
    case "=":
      return zoom(range, 0.5, middle, newest);
    case "-":
      return zoom(range, 2, middle, newest);
    case "End":
      return clamp({ from: newest - width(range), to: newest }, newest);
    default:
      return null;
  }
}

const UNITS: ReadonlyArray<readonly [seconds: number, name: string]> = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
];

export function widthText(range: Range): string {
  const seconds = width(range);
  for (const [unit, name] of UNITS)
    if (seconds >= 1.5 * unit) return `${Number((seconds / unit).toPrecision(3))} ${name}`;
  return `${Number(seconds.toPrecision(3))} s`;
}
