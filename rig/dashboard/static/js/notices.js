// SPDX-License-Identifier: GPL-3.0-or-later
// What is missing or wrong, at the top of the page: the server's sentences, and the page's own one.
import { id, keyed, make, setText } from "./dom.js";

const LOST = ["bad", "The dashboard's server does not answer; the figures here are old. Reconnecting."];
let sent = [];
let connected = true;

export const set = (message) => (sent = message.notices);
export const setLink = (up) => (connected = up);

export function draw() {
  const list = connected ? sent : [LOST, ...sent];
  keyed(
    id("notices"),
    list,
    ([, text]) => text.replace(/[\d:]+/g, "#"),
    ([kind]) => make("p", { class: "notice " + kind }),
    (element, [, text]) => setText(element, text),
  );
}
