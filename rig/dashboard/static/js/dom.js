// SPDX-License-Identifier: GPL-3.0-or-later
// Elements by id and by recipe; text only, never markup from data.

export const id = (name) => document.getElementById(name);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Writing an unchanged text still costs the browser a layout.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Keyed children: creates, updates, removes and orders them to match `items`.
export function keyed(parent, items, keyOf, create, update) {
  const have = new Map([...parent.children].map((child) => [child.dataset.key, child]));
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
