// SPDX-License-Identifier: GPL-3.0-or-later
import { beforeEach, expect, test } from "vitest";
import { changed, emptiness, id, keyed, make, within } from "../dom/elements";

let list: HTMLElement;
beforeEach(() => {
  list = make("ul");
});

const show = (...names: string[]) =>
  keyed(
    list,
    names,
    (name) => name,
    () => make("li"),
    (item, name) => (item.textContent = name.toUpperCase()),
  );
const texts = () => [...list.children].map((child) => child.textContent);

test("keyed children follow the items' order", () => {
  show("a", "b", "c");
  expect(texts()).toEqual(["A", "B", "C"]);
  show("c", "a", "d");
  expect(texts()).toEqual(["C", "A", "D"]);
  show();
  expect(texts()).toEqual([]);
});

test("an item that stays keeps its element", () => {
  show("a", "b");
  const [, b] = list.children;
  show("b", "x", "a");
  expect(list.children[0]).toBe(b);
});

test("data is text, never markup", () => {
  const element = make("p", {}, "<img src=x>");
  expect(element.children).toHaveLength(0);
  expect(element.textContent).toBe("<img src=x>");
});

test("an attribute that is false or unknown is left out", () => {
  const element = make("button", { hidden: false, disabled: true, title: null, class: "a b", "data-n": 3 });
  expect(element.outerHTML).toBe('<button disabled="" class="a b" data-n="3"></button>');
});

test("content counts as changed once", () => {
  const element = make("p");
  expect(changed(element, [1, { a: 2 }])).toBe(true);
  expect(changed(element, [1, { a: 2 }])).toBe(false);
  expect(changed(element, [1, { a: 3 }])).toBe(true);
  expect(changed(make("p"), [1, { a: 3 }])).toBe(true);
});

test("an empty list says so, and no longer when it has items", () => {
  emptiness(list, "None yet.");
  expect(texts()).toEqual(["None yet."]);
  emptiness(list, null);
  show("a");
  emptiness(list, null);
  expect(texts()).toEqual(["A"]);
  emptiness(list, "None.");
  expect(texts()).toEqual(["None."]);
});

test("an element that the page lacks is an error that names it", () => {
  expect(() => id("nowhere")).toThrow("#nowhere");
  expect(() => within(list, ".gone")).toThrow(".gone");
});
