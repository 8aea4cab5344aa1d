// SPDX-License-Identifier: GPL-3.0-or-later
// The last buckets of each channel and column as plain arrays with null for "no value", as uPlot
// wants them.
import type { Section } from "./frames";

// Points are up to 3 s old when they can be read: powerd and the writer forward once a second each,
// the agents every two. A channel that is silent for longer has no value to show.
const HEARD_SECONDS = 5;
const AVERAGED_SECONDS = 1;

export type Row = (number | null)[];

export class Window {
  readonly length: number;
  readonly times: number[];
  readonly channels: Row[][] = [];
  end = 0; // one past the newest bucket

  constructor(
    readonly bucketSeconds: number,
    spanSeconds: number,
  ) {
    this.length = Math.round(spanSeconds / bucketSeconds) + 1;
    this.times = new Array<number>(this.length).fill(0);
  }

  apply({ first, buckets, channels, columns, values }: Section): void {
    this.slideTo(first + buckets);
    while (this.channels.length < channels)
      this.channels.push(Array.from({ length: columns }, () => new Array<null>(this.length).fill(null) as Row));
    const start = this.end - this.length;
    let from = 0;
    for (let channel = 0; channel < channels; channel++)
      for (let column = 0; column < columns; column++) {
        const row = this.channels[channel]?.[column];
        for (let i = 0; i < buckets; i++) {
          const value = values[from++];
          const at = first + i - start;
          if (row && at >= 0) row[at] = value === undefined || Number.isNaN(value) ? null : value;
        }
      }
  }

  slideTo(end: number): void {
    const steps = Math.min(end - this.end, this.length);
    if (steps <= 0) return;
    this.end = end;
    const start = end - this.length;
    for (let i = 0; i < this.length; i++) this.times[i] = (start + i + 0.5) * this.bucketSeconds;
    for (const columns of this.channels)
      for (const row of columns) {
        row.splice(0, steps);
        for (let i = 0; i < steps; i++) row.push(null);
      }
  }

  // Until when (s) buckets are complete: where the newest with a value begins; 0 if none has one.
  completeUntil(): number {
    const start = this.end - this.length;
    for (let i = this.length - 1; i >= 0; i--)
      if (this.channels.some((columns) => columns[0]?.[i] != null)) return (start + i) * this.bucketSeconds;
    return 0;
  }

  // Mean of the newest second that has values; null if it ended more than HEARD_SECONDS ago.
  recent(channel: number, column: number): number | null {
    const row = this.channels[channel]?.[column];
    if (!row) return null;
    const oldest = Math.max(0, this.length - Math.round(HEARD_SECONDS / this.bucketSeconds));
    let end = this.length;
    while (end > oldest && row[end - 1] === null) end--;
    if (end === oldest) return null;
    let sum = 0;
    let count = 0;
    for (const value of row.slice(Math.max(0, end - Math.round(AVERAGED_SECONDS / this.bucketSeconds)), end))
      if (value !== null) {
        sum += value;
        count++;
      }
    return sum / count;
  }
}
