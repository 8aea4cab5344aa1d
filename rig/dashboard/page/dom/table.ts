// SPDX-License-Identifier: GPL-3.0-or-later
// A table of rows that come and go: keyed, with a caption for those who do not see it.
import { changed, emptiness, keyed, make, setText, within } from "./elements";

export interface Column<T> {
  head: string;
  title?: string; // what the head means
  numeric?: boolean;
  text?: (row: T) => string;
  fill?: (cell: HTMLElement, row: T) => void; // where text is not enough
  kind?: (row: T) => string; // class of the cell
}

export interface TableOptions<T> {
  caption: string;
  columns: Column<T>[]; // the first one names the row
  keyOf: (row: T) => string;
  empty: string;
  kind?: (row: T) => string; // class of the row
}

export function showTable<T>(place: HTMLElement, { caption, columns, keyOf, empty, kind }: TableOptions<T>, rows: readonly T[]): void {
  emptiness(place, rows.length ? null : empty);
  if (!rows.length) return;
  if (!place.firstElementChild) {
    const heads = columns.map(({ head, title, numeric }) => make("th", { scope: "col", class: numeric && "n", title }, head));
    const table = make("table", { class: "list" }, make("caption", { class: "unseen" }, caption), make("thead", {}, make("tr", {}, ...heads)), make("tbody"));
    // Wider than a phone: the table scrolls, by keys too, and the page does not.
    place.append(make("div", { class: "sideways", tabindex: "0", role: "region", "aria-label": caption }, table));
  }
  keyed(
    within(place, "tbody"),
    rows,
    keyOf,
    () => make("tr", {}, ...columns.map(({ numeric }, i) => (i ? make("td", { class: numeric && "n" }) : make("th", { scope: "row" })))),
    (line, row) => {
      if (kind) line.className = kind(row);
      columns.forEach((column, i) => {
        const cell = line.children[i] as HTMLElement;
        if (column.kind) cell.className = `${column.numeric ? "n " : ""}${column.kind(row)}`.trim();
        if (column.text) setText(cell, column.text(row));
        else if (column.fill && changed(cell, row)) column.fill(cell, row);
      });
    },
  );
}
