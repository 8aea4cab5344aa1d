// SPDX-License-Identifier: GPL-3.0-or-later
// Counters that tests and people in a console can read.
export const stats = (window.rigStats = {
  frames: 0, // frames received
  drops: 0, // frames that did not come, seen from the gaps in their sequence
  dropped_by_server: 0, // what the server says it dropped for this page
  last_seq: 0,
  reconnects: 0,
  messages: 0,
});
