// SPDX-License-Identifier: GPL-3.0-or-later
// Colours come from the style sheet, so that charts follow the scheme the page is in.
const dark = matchMedia("(prefers-color-scheme: dark)");
let cache = {};
dark.addEventListener("change", () => (cache = {}));

export function colour(name) {
  return (cache[name] ??= getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
}

export const onSchemeChange = (act) => dark.addEventListener("change", act);

// Drives differ in colour and, past the palette's safe half, in dash.
export const driveColour = (index) => colour("drive-" + (index % 8));
export const driveDash = (index) => (index % 8 >= 4 ? [5, 3] : undefined);
export const railColour = (index) => colour("rail-" + (index % 4));
