// SPDX-License-Identifier: GPL-3.0-or-later
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { lost, set, setLink } from "../shell/notices";

const place = () => document.getElementById("notices")!;
const texts = () => [...place().children].map((child) => child.textContent);

beforeEach(() => {
  document.body.innerHTML = '<div id="notices"></div>';
  vi.useFakeTimers();
  setLink(true, Date.now());
  set([]);
});
afterEach(() => {
  setLink(true, Date.now());
  vi.useRealTimers();
});

test("the server's sentences are shown with their kind", () => {
  set([
    ["warn", "Meter tap1a is slow."],
    ["info", "Slow motion."],
  ]);
  expect(texts()).toEqual(["Meter tap1a is slow.", "Slow motion."]);
  expect(place().children[0]!.className).toBe("notice warn");
});

test("a lost connection is named before all else, until it is back", () => {
  set([["info", "Slow motion."]]);
  setLink(false, Date.now() - 6000);
  expect(texts()).toEqual([lost(6)[1], "Slow motion."]);
  expect(texts()[0]).toContain("the figures here are 6 s old");
  vi.advanceTimersByTime(3600_000);
  expect(texts()[0]).toContain("the figures here are 60 min old");
  setLink(true, Date.now());
  expect(texts()).toEqual(["Slow motion."]);
});

test("a sentence whose number changes keeps its element: a screen reader does not read it again", () => {
  set([["warn", "No event for 11 min."]]);
  const before = place().firstChild;
  set([["bad", "No event for 12 min."]]);
  expect(place().firstChild).toBe(before);
  expect(texts()).toEqual(["No event for 12 min."]);
  expect(place().children[0]!.className).toBe("notice bad");
});

test("sentences that differ in numbers alone are each there once", () => {
  const both: ["bad", string][] = [["bad", "Meter tap1a is silent."], ["bad", "Meter tap2a is silent."]];
  set(both);
  set(both);
  expect(texts()).toEqual(["Meter tap1a is silent.", "Meter tap2a is silent."]);
  set([]);
  expect(texts()).toEqual([]);
});
