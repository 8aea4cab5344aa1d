// SPDX-License-Identifier: GPL-3.0-or-later
// Elements by id and by recipe; text only, never markup from data.

type Attribute = string | number | boolean | null | undefined;
type Child = Node | string | null | undefined;

export function id<T extends HTMLElement = HTMLElement>(name: string): T {
  const element = document.getElementById(name);
  if (!element) throw new Error(`the page has no element #${name}`);
  return element as T;
}

export function within<T extends HTMLElement = HTMLElement>(parent: ParentNode, selector: string): T {
  const element = parent.querySelector<T>(selector);
  if (!element) throw new Error(`no ${selector} here`);
  return element;
}

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Attribute> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = String(value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Writing an unchanged text still costs the browser a layout.
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

// Keyed children: creates, updates, removes and orders them to match `items`.
export function keyed<T, E extends HTMLElement>(
  parent: HTMLElement,
  items: readonly T[],
  keyOf: (item: T) => string | number,
  create: (item: T) => E,
  update: (element: E, item: T) => void,
): void {
  const have = new Map([...parent.children].map((child) => [(child as HTMLElement).dataset.key, child as E]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = have.get(key);
    if (child) have.delete(key);
    else {
      child = create(item);
      child.dataset.key = key;
    }
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
    update(child, item);
  }
  for (const child of have.values()) child.remove();
}

// Whether `content` differs from what was last drawn into the element.
const drawn = new WeakMap<Element, string>();
export function changed(element: Element, content: unknown): boolean {
  const signature = JSON.stringify(content);
  if (drawn.get(element) === signature) return false;
  drawn.set(element, signature);
  return true;
}

// Shows `text` alone where there is nothing to list; takes it away otherwise.
export function emptiness(place: HTMLElement, text: string | null): void {
  const first = place.firstElementChild;
  const shown = first?.classList.contains("empty") ? first : null;
  if (text === null) shown?.remove();
  else if (shown?.textContent !== text) place.replaceChildren(make("p", { class: "empty" }, text));
}
