// SPDX-License-Identifier: GPL-3.0-or-later
// The head of the page: the campaign, its progress and the time left.
import { id, make, setText } from "./dom.js";
import { duration } from "./format.js";
import { now } from "./clock.js";
import { FINISHED } from "./names.js";

const SYMBOLS = { running: "▶", finished: "✓", planned: "○", "between runs": "…", finishing: "…" };
let campaign = null;

export function set(message) {
  campaign = message.found ? message : null;
  chooser(message);
  id("virtual").hidden = !campaign?.virtual;
  setText(id("campaign-name"), campaign ? campaign.name : message.chosen || "No campaign");
  setText(id("question"), campaign ? campaign.question : "");
  id("question").title = campaign ? campaign.question : "";
  document.title = campaign ? `${campaign.done}/${campaign.total} ${campaign.name} – Joulerig` : "Joulerig";
  const state = id("campaign-state");
  setText(state, campaign ? `${SYMBOLS[campaign.state] || ""} ${campaign.state}` : "");
  state.dataset.state = campaign ? campaign.state : "";
  setText(id("done"), campaign ? String(campaign.done) : "–");
  setText(id("total"), campaign ? String(campaign.total) : "–");
  progress();
  tick();
}

function chooser(message) {
  const select = id("chooser");
  const options = [
    make("option", { value: "" }, message.newest ? "newest" : "none yet"),
    ...message.campaigns.map((name) => make("option", { value: name }, name)),
  ];
  select.replaceChildren(...options);
  select.value = message.chosen || "";
  select.onchange = () => {
    location.search = select.value ? "?campaign=" + encodeURIComponent(select.value) : "";
  };
}

function progress() {
  const bar = id("progress");
  bar.setAttribute("aria-valuemax", campaign ? campaign.total : 0);
  bar.setAttribute("aria-valuenow", campaign ? campaign.done : 0);
  bar.replaceChildren(
    ...[...FINISHED, "running"].filter((status) => campaign?.counts[status]).map((status) => {
      const part = make("span", { class: "status-" + status, title: `${campaign.counts[status]} ${status}` });
      part.style.width = (100 * campaign.counts[status]) / campaign.total + "%";
      return part;
    }),
  );
}

// What changes with time alone.
export function tick() {
  if (!campaign) {
    setText(id("elapsed"), "–");
    setText(id("eta"), "–");
    return;
  }
  const start = campaign.started_ns ?? campaign.created_ns;
  const end = campaign.finished_ns ? campaign.finished_ns / 1e9 : now();
  setText(id("elapsed"), campaign.started_ns || campaign.finished_ns ? duration(end - start / 1e9) : "–");
  const left = campaign.eta_ns === null ? null : campaign.eta_ns / 1e9 - now();
  const text = campaign.finished_ns ? "done" : left === null ? "after first run" : left < 1 ? "any moment" : (campaign.eta_at_most ? "≤ " : "") + duration(left);
  setText(id("eta"), text);
}

export function link(connected) {
  const element = id("link");
  setText(element, connected ? "● live" : "✕ reconnecting");
  element.classList.toggle("bad", !connected);
}
