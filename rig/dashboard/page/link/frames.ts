// SPDX-License-Identifier: GPL-3.0-or-later
// The reading side of rig/dashboard/web/frames.py.
const HEADER = 6;
const SECTION = 5;

export interface Section {
  bucketSeconds: number;
  first: number;
  buckets: number;
  channels: number;
  columns: number;
  values: ArrayLike<number>;
}

export interface Frame {
  version: number;
  seq: number;
  now: number;
  layout: number;
  dropped: number;
  sections: Section[];
}

export function decode(buffer: ArrayBuffer): Frame {
  const [version, seq, now, layout, dropped, count] = tuple(new Float64Array(buffer, 0, HEADER));
  const sections: Section[] = [];
  let at = HEADER * 8;
  for (let i = 0; i < count; i++) {
    const [bucketSeconds, first, buckets, channels, columns] = tuple(new Float64Array(buffer, at, SECTION));
    at += SECTION * 8;
    const values = new Float32Array(buffer, at, buckets * channels * columns);
    at += Math.ceil(values.byteLength / 8) * 8;
    sections.push({ bucketSeconds, first, buckets, channels, columns, values });
  }
  return { version, seq, now, layout, dropped, sections };
}

// As many numbers as were asked for: the constructor of a typed array throws otherwise.
type Six = [number, number, number, number, number, number];
const tuple = (values: Float64Array) => [...values] as Six;
