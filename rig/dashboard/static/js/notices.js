// SPDX-License-Identifier: GPL-3.0-or-later
// Messages about what is missing or wrong, at the top of the page.
import { id, keyed, make, setText } from "./dom.js";
import { duration } from "./format.js";
import { now } from "./clock.js";

const QUIET_SECONDS = 600;
let campaign = null;
let live = null;
let connected = true;

export const setCampaign = (message) => (campaign = message);
export const setLive = (message) => (live = message);
export const setLink = (up) => (connected = up);

export function draw() {
  const list = [];
  if (!connected) list.push(["bad", "The dashboard's server does not answer; the figures here are old. Reconnecting."]);
  if (campaign && !campaign.found) {
    if (campaign.chosen && !campaign.campaigns.includes(campaign.chosen))
      list.push(["bad", `There is no campaign ${campaign.chosen}; choose another above.`]);
    else if (!campaign.problem) list.push(["info", "No campaign yet: 'rig run playbooks/demo.yml' starts one and it appears here."]);
  }
  if (campaign?.problem) list.push(["bad", `A journal cannot be read: ${campaign.problem}`]);
  if (campaign?.chosen && campaign.found && campaign.newest !== campaign.chosen)
    list.push(["info", `This is not the newest campaign (${campaign.newest}); the traces are live anyway.`]);
  if (live?.slowness > 1)
    list.push(["info", `Slow motion: a second of the virtual lab lasts ${Number(live.slowness.toPrecision(3))} s. Times here are the lab's, but for the time left.`]);
  for (const text of campaign?.warnings ?? []) list.push(["warn", text]);
  if (live && !live.influx.ok) list.push(["bad", `${live.influx.message}. The traces have a gap; retrying.`]);
  if (live && !live.powerd.ok) list.push(["warn", `Meters' state unknown: ${live.powerd.message}.`]);
  for (const meter of live?.powerd.meters ?? [])
    if (meter.state === "silent" || meter.state === "failed")
      list.push(["bad", `Meter ${meter.name} is ${meter.state}${meter.reason ? ": " + meter.reason : ""}. Its rails have no energy, so runs are partial.`]);
  if (campaign?.found && campaign.state !== "finished" && campaign.last_event_ns) {
    const quiet = now() - campaign.last_event_ns / 1e9;
    if (quiet > QUIET_SECONDS) list.push(["warn", `No event in the campaign's journal for ${duration(quiet)}: its playbook may have stopped.`]);
  }
  keyed(
    id("notices"),
    list,
    ([, text]) => text.replace(/[\d:]+/g, "#"),
    ([kind]) => make("p", { class: "notice " + kind }),
    (element, [, text]) => setText(element, text),
  );
}
