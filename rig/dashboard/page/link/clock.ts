// SPDX-License-Identifier: GPL-3.0-or-later
// The lab's time, as the server has it: the page may be open on a machine whose clock differs, and
// a virtual lab goes more slowly in slow motion.
let heard = 0;
let at = 0;
let slowness = 1;

export function hear(serverSeconds: number): void {
  heard = serverSeconds;
  at = performance.now();
}

export function setSlowness(seconds: number): void {
  slowness = seconds;
}

export const now = (): number => heard + (performance.now() - at) / 1000 / slowness;

// Whether the server's time has been heard yet.
export const isKnown = (): boolean => heard > 0;
