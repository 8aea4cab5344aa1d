// SPDX-License-Identifier: GPL-3.0-or-later
// Starts the page that the address asks for, in the shell that all share, and passes it what the
// server sends.
import "uplot/dist/uPlot.min.css";
import * as campaign from "./campaign/page";
import * as phases from "./charts/phases";
import { id } from "./dom/elements";
import * as history from "./history/page";
import * as clock from "./link/clock";
import type { Frame } from "./link/frames";
import type { CampaignMessage, Layout, Live, Message } from "./link/messages";
import { connect } from "./link/socket";
import "./link/stats";
import * as live from "./live/page";
import * as settling from "./live/settling";
import * as rig from "./rig/page";
import * as header from "./shell/header";
import { chosenCampaign, mark, pageName, type PageName } from "./shell/nav";
import * as notices from "./shell/notices";

interface Page {
  start: () => void;
  onLayout?: (layout: Layout) => void;
  onCampaign?: (message: CampaignMessage, reordered: boolean) => void;
  onLive?: (message: Live) => void;
  onFrame?: (frame: Frame) => void;
  draw?: (now: number) => void; // at most once per frame of the screen
}

const PAGES: Record<PageName, Page> = { live, campaign, rig, history };
const name = pageName(location.pathname);
const page = PAGES[name];
let version: number | null = null;
let drawing = false;

function take(message: Message): void {
  switch (message.kind) {
    case "layout":
      if (version !== null && version !== message.version) location.reload(); // the server is another release
      version = message.version;
      return page.onLayout?.(message);
    case "campaign": {
      const reordered = phases.setCampaign(message);
      header.set(message);
      return page.onCampaign?.(message, reordered);
    }
    case "live":
      clock.setSlowness(message.slowness);
      phases.setBands(message.bands);
      settling.setRounds(message.rounds);
      return page.onLive?.(message);
    case "notices":
      return notices.set(message.notices);
  }
}

function onFrame(frame: Frame): void {
  clock.hear(frame.now);
  page.onFrame?.(frame);
  if (drawing || document.hidden) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    header.tick();
    page.draw?.(frame.now);
  });
}

const main = id("page");
main.dataset.page = name;
main.append(id<HTMLTemplateElement>("page-" + name).content.cloneNode(true));
header.setPage(name);
mark(name, chosenCampaign(location.search));
page.start();
connect({
  onMessage: take,
  onFrame,
  onLink(up, heardMs) {
    header.link(up);
    notices.setLink(up, heardMs);
    main.classList.toggle("stale", !up);
  },
});
