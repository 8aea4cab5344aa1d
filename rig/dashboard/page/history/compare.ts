// SPDX-License-Identifier: GPL-3.0-or-later
// Two campaigns cell by cell: each one's AI and interval. Whether they differ is `rig compare`'s to
// say, by the report's function: this table does not guess it from intervals.
import { emptiness, id, make } from "../dom/elements";
import { showTable } from "../dom/table";
import { addressOf, fetchJson } from "../link/api";
import type { CampaignDetail, ListedCampaign, PlannedCell } from "../link/replies";
import { aiText, intervalText } from "../campaign/plan";

export interface Pair {
  cell: string;
  first: PlannedCell | undefined;
  second: PlannedCell | undefined;
}

export function pairs(first: readonly PlannedCell[], second: readonly PlannedCell[]): Pair[] {
  const other = new Map(second.map((cell) => [cell.cell, cell]));
  const found: Pair[] = first.map((cell) => ({ cell: cell.cell, first: cell, second: other.get(cell.cell) }));
  const known = new Set(first.map(({ cell }) => cell));
  return [...found, ...second.filter(({ cell }) => !known.has(cell)).map((cell) => ({ cell: cell.cell, first: undefined, second: cell }))];
}

export function whyNot([first, second]: readonly Pick<ListedCampaign, "comparable">[]): string | null {
  if (!first || !second) return "Choose two campaigns.";
  return first.comparable === second.comparable ? null : "These have other cells or phases: only the cells that both have can be compared.";
}

let asked = 0;

export async function show(chosen: readonly ListedCampaign[]): Promise<void> {
  const place = id("compare");
  const mine = ++asked;
  const [first, second] = chosen;
  place.replaceChildren();
  if (!first || !second) return emptiness(place, whyNot(chosen));
  try {
    const [one, two] = await Promise.all(
      [first, second].map((campaign) => fetchJson<CampaignDetail>(addressOf("/api/campaign", { campaign: campaign.id }))),
    );
    if (mine !== asked || !one || !two) return; // something else was chosen meanwhile
    const text = (cell: PlannedCell | undefined) => (cell ? [aiText(cell), intervalText(cell)].filter(Boolean).join("; ") : "not in it");
    showTable(
      place,
      {
        caption: `${first.id} and ${second.id}`,
        keyOf: ({ cell }) => cell,
        empty: "No cells.",
        columns: [
          { head: "Cell", text: ({ cell }) => cell },
          { head: first.id, text: (pair) => text(pair.first) },
          { head: second.id, text: (pair) => text(pair.second) },
        ],
      },
      pairs(one.cells, two.cells),
    );
    place.append(make("p", { class: "key" }, [whyNot(chosen), "Whether they differ: "].filter(Boolean).join(" "), make("code", {}, `rig compare ${first.id} ${second.id}`)));
  } catch (error) {
    if (mine === asked) emptiness(place, error instanceof Error ? error.message : String(error));
  }
}
