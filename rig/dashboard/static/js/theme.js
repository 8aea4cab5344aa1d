// SPDX-License-Identifier: GPL-3.0-or-later
// Colours come from the style sheet, so that charts follow the scheme the page is in.
const dark = matchMedia("(prefers-color-scheme: dark)");
let cache = {};
dark.addEventListener("change", () => (cache = {}));

export function colour(name) {
  return (cache[name] ??= getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
}

export const onSchemeChange = (act) => dark.addEventListener("change", act);

// Drives differ in colour and in dash: so many looks there are.
const COLOURS = 8;
const DASHES = [
  ["", undefined],
  ["dashed", [5, 3]],
  ["dotted", [1.5, 2.5]],
];
const LOOKS = COLOURS * DASHES.length;

// The look of each drive: by its name, so that it keeps it whatever else is on the page, and the
// next free one where two names come to the same.
export function driveLooks(names) {
  const taken = new Set();
  const looks = new Map();
  for (const name of [...names].sort()) {
    let look = hash(name) % LOOKS;
    while (taken.has(look) && taken.size < LOOKS) look = (look + 1) % LOOKS;
    taken.add(look);
    looks.set(name, look);
  }
  return looks;
}

export const driveColour = (look) => colour("drive-" + (look % COLOURS));
export const driveDash = (look) => DASHES[Math.floor(look / COLOURS)][1];
export const driveClass = (look) => `drive-${look % COLOURS} ${DASHES[Math.floor(look / COLOURS)][0]}`.trim();

// FNV-1a, 32 bits.
function hash(text) {
  let value = 2166136261;
  for (const byte of new TextEncoder().encode(text)) value = Math.imul(value ^ byte, 16777619);
  return value >>> 0;
}
export const railColour = (index) => colour("rail-" + (index % 4));
