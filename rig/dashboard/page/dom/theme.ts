// SPDX-License-Identifier: GPL-3.0-or-later
// Colours come from the style sheet, so that charts follow the scheme the page is in.
import { driveColourName } from "./looks";

const dark = matchMedia("(prefers-color-scheme: dark)");
const cache = new Map<string, string>();
dark.addEventListener("change", () => cache.clear());

export function colour(name: string): string {
  let found = cache.get(name);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
    cache.set(name, found);
  }
  return found;
}

export const onSchemeChange = (act: () => void): void => dark.addEventListener("change", act);
export const driveColour = (look: number): string => colour(driveColourName(look));
export const railColour = (index: number): string => colour("rail-" + (index % 4));
