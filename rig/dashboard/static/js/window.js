// SPDX-License-Identifier: GPL-3.0-or-later
// The last buckets of each channel and column as plain arrays with null for "no value", as uPlot
// wants them.

// Points are up to 3 s old when they can be read: powerd and the writer forward once a second each,
// the agents every two. A channel that is silent for longer has no value to show.
const HEARD_SECONDS = 5;
const AVERAGED_SECONDS = 1;

export class Window {
  constructor(bucketSeconds, spanSeconds) {
    this.bucketSeconds = bucketSeconds;
    this.length = Math.round(spanSeconds / bucketSeconds) + 1;
    this.end = 0; // one past the newest bucket
    this.times = new Array(this.length).fill(0);
    this.channels = [];
  }

  apply({ first, buckets, channels, columns, values }) {
    this.slideTo(first + buckets);
    while (this.channels.length < channels)
      this.channels.push(Array.from({ length: columns }, () => new Array(this.length).fill(null)));
    const start = this.end - this.length;
    let from = 0;
    for (let channel = 0; channel < channels; channel++)
      for (let column = 0; column < columns; column++) {
        const row = this.channels[channel][column];
        for (let i = 0; i < buckets; i++) {
          const value = values[from++];
          const at = first + i - start;
          if (at >= 0) row[at] = Number.isNaN(value) ? null : value;
        }
      }
  }

  slideTo(end) {
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

  // Mean of the newest second that has values; null if it ended more than HEARD_SECONDS ago.
  recent(channel, column) {
    const row = this.channels[channel]?.[column];
    if (!row) return null;
    const oldest = Math.max(0, this.length - Math.round(HEARD_SECONDS / this.bucketSeconds));
    let end = this.length;
    while (end > oldest && row[end - 1] === null) end--;
    if (end === oldest) return null;
    let sum = 0;
    let count = 0;
    for (let i = Math.max(0, end - Math.round(AVERAGED_SECONDS / this.bucketSeconds)); i < end; i++)
      if (row[i] !== null) {
        sum += row[i];
        count++;
      }
    return sum / count;
  }
}
