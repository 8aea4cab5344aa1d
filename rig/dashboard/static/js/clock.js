// SPDX-License-Identifier: GPL-3.0-or-later
// The controller's time: the page may be open on a machine whose clock differs.
let offset = 0;

export function hear(serverSeconds) {
  offset = serverSeconds - performance.now() / 1000;
}

export const now = () => offset + performance.now() / 1000;
