// SPDX-License-Identifier: GPL-3.0-or-later
import { expect, test } from "vitest";
import { address, chosenAddress, chosenCampaign, mark, pageName } from "../shell/nav";

test.each([
  ["/", "live"],
  ["/campaign", "campaign"],
  ["/rig", "rig"],
  ["/history", "history"],
  ["/else", "live"],
])("%s is the page %s", (path, name) => expect(pageName(path)).toBe(name));

test("a campaign stays chosen on pages that show one", () => {
  expect(address("campaign", "a b")).toBe("/campaign?campaign=a%20b");
  expect(address("live", null)).toBe("/");
  expect(address("rig", "a")).toBe("/rig");
});

test("choosing a campaign on a page without one leads to the campaign's", () => {
  expect(chosenAddress("live", "a")).toBe("/?campaign=a");
  expect(chosenAddress("rig", "a")).toBe("/campaign?campaign=a");
  expect(chosenAddress("history", null)).toBe("/campaign");
});

test("the chosen campaign is the address's", () => {
  expect(chosenCampaign("?campaign=demo-1")).toBe("demo-1");
  expect(chosenCampaign("?campaign=")).toBeNull();
  expect(chosenCampaign("")).toBeNull();
});

test("the current page is marked for screen readers too", () => {
  document.body.innerHTML = '<nav class="pages"><a href="/">Live</a><a href="/campaign">Campaign</a></nav>';
  mark("campaign", "demo-1");
  const [live, campaign] = document.querySelectorAll("a");
  expect(live!.getAttribute("href")).toBe("/?campaign=demo-1");
  expect(live!.hasAttribute("aria-current")).toBe(false);
  expect(campaign!.getAttribute("aria-current")).toBe("page");
});
