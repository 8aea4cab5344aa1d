// SPDX-License-Identifier: GPL-3.0-or-later
// Which of the pages this is, and the way to the others.
export type PageName = "live" | "campaign" | "rig" | "history";

const PATHS: Record<PageName, string> = { live: "/", campaign: "/campaign", rig: "/rig", history: "/history" };
const OF_A_CAMPAIGN: readonly PageName[] = ["live", "campaign"];

export const pageName = (path: string): PageName =>
  (Object.keys(PATHS) as PageName[]).find((name) => PATHS[name] === path) ?? "live";

// The address of a page; of one that shows a campaign, with that.
export function address(page: PageName, campaign: string | null): string {
  const query = campaign && OF_A_CAMPAIGN.includes(page) ? "?campaign=" + encodeURIComponent(campaign) : "";
  return PATHS[page] + query;
}

// Where choosing a campaign leads: this page if it shows one.
export const chosenAddress = (page: PageName, campaign: string | null): string =>
  address(OF_A_CAMPAIGN.includes(page) ? page : "campaign", campaign);

export const chosenCampaign = (search: string): string | null => new URLSearchParams(search).get("campaign") || null;

// Marks the current page's link and keeps the chosen campaign in the others.
export function mark(current: PageName, campaign: string | null): void {
  for (const link of document.querySelectorAll<HTMLAnchorElement>(".pages a")) {
    const page = pageName(new URL(link.href).pathname);
    link.href = address(page, campaign);
    if (page === current) link.setAttribute("aria-current", "page");
  }
}
