// SPDX-License-Identifier: GPL-3.0-or-later
// What is missing or wrong, at the top of the page: the server's sentences, and the page's own.
import { id, keyed, make, setText } from "../dom/elements";
import type { Notice } from "../link/messages";

export const LOST: Notice = ["bad", "The dashboard's server does not answer; the figures here are old. Reconnecting."];
let sent: Notice[] = [];
let own: Notice[] = []; // what this page could not fetch
let connected = true;

export function set(notices: Notice[]): void {
  sent = notices;
  draw();
}

export function setOwn(notices: Notice[]): void {
  own = notices;
  draw();
}

export function setLink(up: boolean): void {
  connected = up;
  draw();
}

function draw(): void {
  keyed(
    id("notices"),
    [...(connected ? [] : [LOST]), ...own, ...sent],
    ([, text]) => text.replace(/[\d:]+/g, "#"), // a sentence whose numbers change is the same one
    () => make("p"),
    (element, [kind, text]) => {
      element.className = "notice " + kind;
      setText(element, text);
    },
  );
}
