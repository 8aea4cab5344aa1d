// SPDX-License-Identifier: GPL-3.0-or-later
// What is missing or wrong, at the top of the page: the server's sentences, and the page's own.
import { id, keyed, make, setText } from "../dom/elements";
import type { Notice } from "../link/messages";
import { lasted } from "../text/format";

const EVERY_MS = 5000; // an age that changes each second cannot be read
let sent: Notice[] = [];
let own: Notice[] = []; // what this page could not fetch
let lostAt: number | null = null; // ms by the wall, when the server was last heard
let timer: ReturnType<typeof setInterval> | undefined;

export const lost = (seconds: number): Notice => [
  "bad",
  `The dashboard's server does not answer; the figures here are ${lasted(seconds)} old. Reconnecting.`,
];

export function set(notices: Notice[]): void {
  sent = notices;
  draw();
}

export function setOwn(notices: Notice[]): void {
  own = notices;
  draw();
}

export function setLink(up: boolean, heardMs: number): void {
  clearInterval(timer);
  lostAt = up ? null : heardMs;
  if (!up) timer = setInterval(draw, EVERY_MS);
  draw();
}

function draw(): void {
  const all = [...(lostAt === null ? [] : [lost((Date.now() - lostAt) / 1000)]), ...own, ...sent];
  // A sentence whose numbers change is the same one; those of tap1a and tap2a are two.
  const seen = new Map<string, number>();
  const shown = all.map(([kind, text]) => {
    const key = text.replace(/[\d:]+/g, "#");
    seen.set(key, (seen.get(key) ?? 0) + 1);
    return { kind, text, key: `${key}|${seen.get(key)}` };
  });
  keyed(
    id("notices"),
    shown,
    ({ key }) => key,
    () => make("p"),
    (element, { kind, text }) => {
      element.className = "notice " + kind;
      setText(element, text);
    },
  );
}
