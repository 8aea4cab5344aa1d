// SPDX-License-Identifier: GPL-3.0-or-later
// Numbers and times as text: three significant digits, units left to the labels.

export type Maybe = number | null | undefined;

const unknown = (value: Maybe): value is null | undefined => value === null || value === undefined || Number.isNaN(value);

const SCALES: ReadonlyArray<readonly [least: number, prefix: string]> = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

export function number(value: Maybe, digits = 3): string {
  if (unknown(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const [scale, prefix] = SCALES.find(([least]) => size >= least * 0.9995) ?? SCALES.at(-1)!; // 999.6 k is 1.00 M
  if (size >= 1e4) return `${(value / scale).toPrecision(digits)} ${prefix}`;
  if (size >= 999.5) return String(Math.round(value));
  if (size < 0.001) return value.toExponential(1);
  return value.toPrecision(digits);
}

// A label of an axis: unchanged, but without the digits that a step does not need.
export function tick(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return Number((value / 1e6).toFixed(2)) + "M";
  if (size >= 1e4) return Number((value / 1e3).toFixed(1)) + "k";
  return String(Number(value.toFixed(3)));
}

export function fixed(value: Maybe, decimals: number): string {
  return unknown(value) ? "–" : value.toFixed(decimals);
}

export function duration(seconds: Maybe): string {
  if (unknown(seconds)) return "–";
  const s = Math.max(0, Math.round(seconds));
  const h = Math.floor(s / 3600);
  const m = Math.floor((s % 3600) / 60);
  const two = (n: number) => String(n).padStart(2, "0");
  if (h >= 48) return `${Math.floor(h / 24)} d ${h % 24} h`;
  return h ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
}

export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function percent(value: Maybe): string {
  if (unknown(value)) return "–";
  if (value === 0) return "0 %";
  if (value > 0 && value < 0.01) return "< 0.01 %";
  return value.toFixed(2) + " %";
}

export function shortSeconds(seconds: Maybe): string {
  if (unknown(seconds)) return "–";
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 1e-3) return (seconds * 1e6).toFixed(0) + " µs";
  if (size < 1) return (seconds * 1e3).toFixed(1) + " ms";
  return seconds.toFixed(size < 10 ? 2 : 1) + " s";
}

// Of a request or an operation.
export function latency(seconds: Maybe): string {
  if (unknown(seconds)) return "–";
  if (seconds === 0) return "0 s";
  const [scaled, unit] = seconds < 0.9995e-3 ? [seconds * 1e6, "µs"] : seconds < 0.9995 ? [seconds * 1e3, "ms"] : [seconds, "s"];
  return `${scaled >= 99.95 ? scaled.toFixed(0) : scaled.toPrecision(3)} ${unit}`;
}

const PREFIXES = ["", "k", "M", "G", "T", "P"];

// Decimal prefixes, as drives are sold and rated.
export function bytes(value: Maybe): string {
  if (unknown(value)) return "–";
  let size = value;
  let prefix = 0;
  while (Math.abs(size) >= 1000 && prefix < PREFIXES.length - 1) {
    size /= 1000;
    prefix++;
  }
  const text = prefix === 0 || size >= 100 ? size.toFixed(0) : size.toPrecision(3);
  return `${text} ${PREFIXES[prefix]}B`;
}

// How long, roughly.
export function lasted(seconds: number): string {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export const age = (seconds: Maybe): string => (unknown(seconds) ? "age unknown" : `${lasted(seconds)} ago`);

export function energy(kwh: Maybe): string {
  if (unknown(kwh)) return "–";
  return kwh < 0.001 ? number(kwh * 1e6) + " mWh" : kwh < 1 ? number(kwh * 1e3) + " Wh" : number(kwh) + " kWh";
}

// UTC, as the rig's files and reports have it.
export function date(ns: Maybe): string {
  return unknown(ns) ? "–" : new Date(ns / 1e6).toISOString().slice(0, 16).replace("T", " ");
}

export function time(ns: Maybe): string {
  return unknown(ns) ? "–" : new Date(ns / 1e6).toISOString().slice(11, 19);
}

export const share = (fraction: Maybe): string => (unknown(fraction) ? "–" : `${(100 * fraction).toFixed(fraction < 0.1 ? 1 : 0)} %`);

// A label of a time axis (UTC) whose ticks are `step` seconds apart.
export function timeLabel(seconds: number, step: number): string {
  const text = new Date(seconds * 1000).toISOString();
  if (step >= 86400) return text.slice(5, 10);
  return step >= 60 ? text.slice(11, 16) : text.slice(11, 19);
}
