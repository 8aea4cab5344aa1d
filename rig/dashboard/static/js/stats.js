// SPDX-License-Identifier: GPL-3.0-or-later
// Counters for tests, and for reading in the console.
export const stats = (window.rigStats = {
  frames: 0, // frames received
  drops: 0, // frames missing from the sequence
  dropped_by_server: 0, // frames that the server dropped for this page
  last_seq: 0,
  reconnects: 0,
  messages: 0,
});
