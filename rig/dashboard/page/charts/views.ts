// SPDX-License-Identifier: GPL-3.0-or-later
// Replies of /api/power and /api/io (rig/dashboard/api/views.py) as what a chart draws: for each
// line its greatest, least and mean values.
import { findGaps, type Stretch } from "./gaps";

type Column = (number | null)[];

interface Reduced {
  mean: Column;
  min: Column;
  max: Column;
}

interface Grid {
  host: string;
  drive: string;
  start_ns: number;
  bucket_ns: number;
  buckets: number;
  bands?: { run: string; phase: string; start_ns: number; end_ns: number | null }[];
  bands_left_out?: number;
}

export interface PowerView extends Grid {
  rails: ({ rail: string; meter: string; gap_seconds: Column } & Reduced)[];
}

export interface IoView extends Grid {
  rate_seconds: number;
  columns: Record<string, Reduced>;
}

export interface Line extends Reduced {
  name: string;
}

export type Shown = "watts" | "iops" | "mbps";

const IO_LINES: Record<Exclude<Shown, "watts">, ReadonlyArray<readonly [column: string, name: string]>> = {
  iops: [
    ["reads", "reads/s"],
    ["writes", "writes/s"],
    ["flushes", "flushes/s"],
  ],
  mbps: [
    ["read_mb", "MB/s read"],
    ["write_mb", "MB/s written"],
  ],
};

export function powerLines({ rails }: PowerView): Line[] {
  return [...rails]
    .sort((a, b) => a.rail.localeCompare(b.rail, undefined, { numeric: true }))
    .map(({ rail, mean, min, max }) => ({ name: rail, mean, min, max }));
}

export const ioLines = ({ columns }: IoView, shown: Exclude<Shown, "watts">): Line[] =>
  IO_LINES[shown].flatMap(([column, name]) => (columns[column] ? [{ name, ...columns[column] }] : []));

// The middle of each bucket, in seconds.
export const times = ({ start_ns, bucket_ns, buckets }: Grid): number[] =>
  Array.from({ length: buckets }, (_, i) => (start_ns + (i + 0.5) * bucket_ns) / 1e9);

// Stretches without values, and buckets whose meter reports a gap within them.
export function gaps(view: Grid & { rails?: PowerView["rails"] }, lines: readonly Line[], least: number): Stretch[] {
  const at = times(view);
  const seconds = view.bucket_ns / 1e9;
  const within = (view.rails ?? []).flatMap(({ gap_seconds }) =>
    gap_seconds.flatMap((gap, i) => (gap ? [{ start: at[i]! - seconds / 2, end: at[i]! + seconds / 2 }] : [])),
  );
  const between = findGaps(at, lines.map(({ mean }) => mean), Math.max(least, 1.5 * seconds));
  return [...between, ...within];
}
