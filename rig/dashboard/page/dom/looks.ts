// SPDX-License-Identifier: GPL-3.0-or-later
// The look of each drive. Drives differ in colour and in dash: so many looks there are.
const COLOURS = 8;
const DASHES: ReadonlyArray<readonly [name: string, dash: number[] | undefined]> = [
  ["", undefined],
  ["dashed", [5, 3]],
  ["dotted", [1.5, 2.5]],
];
export const LOOKS = COLOURS * DASHES.length;

// A drive's look is by its name, so that it keeps it whatever else is on the page, and the next
// free one where two names come to the same.
export function driveLooks(names: Iterable<string>): Map<string, number> {
  const taken = new Set<number>();
  const looks = new Map<string, number>();
  for (const name of [...names].sort()) {
    let look = hash(name) % LOOKS;
    while (taken.has(look) && taken.size < LOOKS) look = (look + 1) % LOOKS;
    taken.add(look);
    looks.set(name, look);
  }
  return looks;
}

const dash = (look: number) => DASHES[Math.floor(look / COLOURS) % DASHES.length] ?? DASHES[0]!;

export const driveColourName = (look: number): string => "drive-" + (look % COLOURS);
export const driveDash = (look: number): number[] | undefined => dash(look)[1];
export const driveClass = (look: number): string => `drive-${look % COLOURS} ${dash(look)[0]}`.trim();

// FNV-1a, 32 bits.
function hash(text: string): number {
  let value = 2166136261;
  for (const byte of new TextEncoder().encode(text)) value = Math.imul(value ^ byte, 16777619);
  return value >>> 0;
}
