// SPDX-License-Identifier: GPL-3.0-or-later
// The reading side of rig/dashboard/web/frames.py.
const HEADER = 6;
const SECTION = 5;

export function decode(buffer) {
  const head = new Float64Array(buffer, 0, HEADER);
  const frame = { version: head[0], seq: head[1], now: head[2], layout: head[3], dropped: head[4], sections: [] };
  let at = HEADER * 8;
  for (let i = 0; i < head[5]; i++) {
    const [bucketSeconds, first, buckets, channels, columns] = new Float64Array(buffer, at, SECTION);
    at += SECTION * 8;
    const values = new Float32Array(buffer, at, buckets * channels * columns);
    at += Math.ceil(values.byteLength / 8) * 8;
    frame.sections.push({ bucketSeconds, first, buckets, channels, columns, values });
  }
  return frame;
}
