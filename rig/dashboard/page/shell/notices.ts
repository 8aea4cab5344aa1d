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
  keyed(
    id("notices"),
    [...(lostAt === null ? [] : [lost((Date.now() - lostAt) / 1000)]), ...own, ...sent],
    ([, text]) => text.replace(/[\d:]+/g, "#"), // a sentence whose numbers change is the same one
    () => make("p"),
    (element, [kind, text]) => {
      element.className = "notice " + kind;
      setText(element, text);
    },
  );
}
