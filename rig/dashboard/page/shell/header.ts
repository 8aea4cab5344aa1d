// SPDX-License-Identifier: GPL-3.0-or-later
// The head of the page: the campaign, its progress and the time left.
import { changed, id, make, setText } from "../dom/elements";
import { FINISHED } from "../generated/names";
import { now } from "../link/clock";
import type { CampaignMessage, FoundCampaign } from "../link/messages";
import { duration } from "../text/format";
import { chosenAddress, type PageName } from "./nav";

const SYMBOLS: Record<string, string> = { running: "▶", finished: "✓", planned: "○", "between runs": "…", finishing: "…" };
let campaign: FoundCampaign | null = null;
let page: PageName = "live";

export function setPage(name: PageName): void {
  page = name;
}

export function set(message: CampaignMessage): void {
  campaign = message.found ? message : null;
  chooser(message);
  id("virtual").hidden = !campaign?.virtual;
  setText(id("campaign-name"), campaign ? campaign.name : message.chosen || "No campaign");
  setText(id("question"), campaign?.question ?? "");
  id("question").title = campaign?.question ?? "";
  document.title = campaign ? `${campaign.done}/${campaign.total} ${campaign.name} – Joulerig` : "Joulerig";
  const state = id("campaign-state");
  setText(state, campaign ? `${SYMBOLS[campaign.state] ?? ""} ${campaign.state}` : "");
  state.dataset.state = campaign?.state ?? "";
  setText(id("done"), campaign ? String(campaign.done) : "–");
  setText(id("total"), campaign ? String(campaign.total) : "–");
  progress();
  tick();
}

function chooser({ newest, campaigns, chosen }: CampaignMessage): void {
  const select = id<HTMLSelectElement>("chooser");
  // Options that are replaced close the list that a person has open.
  if (changed(select, [newest, campaigns]))
    select.replaceChildren(
      make("option", { value: "" }, newest ? "newest" : "none yet"),
      ...campaigns.map((name) => make("option", { value: name }, name)),
    );
  select.value = chosen ?? "";
  select.onchange = () => location.assign(chosenAddress(page, select.value || null));
}

function progress(): void {
  const bar = id("progress");
  const shown = campaign;
  bar.setAttribute("aria-valuemax", String(shown?.total ?? 0));
  bar.setAttribute("aria-valuenow", String(shown?.done ?? 0));
  if (!shown) return bar.replaceChildren();
  bar.replaceChildren(
    ...([...FINISHED, "running"] as const)
      .filter((status) => shown.counts[status])
      .map((status) => {
        const part = make("span", { class: "status-" + status, title: `${shown.counts[status]} ${status}` });
        part.style.width = (100 * shown.counts[status]) / shown.total + "%";
        return part;
      }),
  );
}

// What changes with time alone.
export function tick(): void {
  setText(id("elapsed"), campaign ? elapsed(campaign, now()) : "–");
  setText(id("eta"), campaign ? timeLeft(campaign, now()) : "–");
}

type Times = Pick<FoundCampaign, "created_ns" | "started_ns" | "finished_ns" | "eta_ns" | "eta_at_most">;

export function elapsed({ created_ns, started_ns, finished_ns }: Times, seconds: number): string {
  if (!started_ns && !finished_ns) return "–";
  return duration((finished_ns ? finished_ns / 1e9 : seconds) - (started_ns ?? created_ns) / 1e9);
}

export function timeLeft({ finished_ns, eta_ns, eta_at_most }: Times, seconds: number): string {
  if (finished_ns) return "done";
  if (eta_ns === null) return "after first run";
  const left = eta_ns / 1e9 - seconds;
  return left < 1 ? "any moment" : (eta_at_most ? "≤ " : "") + duration(left);
}

export function link(connected: boolean): void {
  const element = id("link");
  setText(element, connected ? "● live" : "✕ reconnecting");
  element.classList.toggle("bad", !connected);
}
