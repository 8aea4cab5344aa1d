// SPDX-License-Identifier: GPL-3.0-or-later
// Counters and the lab's clock for tests, and for reading in the console.
import { now } from "./clock";

export const stats = {
  frames: 0, // frames received
  drops: 0, // frames missing from the sequence
  dropped_by_server: 0, // frames that the server dropped for this page
  last_seq: 0,
  reconnects: 0,
  messages: 0,
  gap_seconds: 0, // in the traces of power that are drawn, of all drives
  drawn_until: 0, // s, the lab's time until which traces of power are drawn
};

declare global {
  interface Window {
    rigStats: typeof stats;
    rigNow: () => number;
  }
}
window.rigStats = stats;
window.rigNow = now;
