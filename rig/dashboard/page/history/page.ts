// SPDX-License-Identifier: GPL-3.0-or-later
// All campaigns of this results folder, their reports to open, and two of them side by side.
import { id, make, setText } from "../dom/elements";
import { showTable } from "../dom/table";
import { addressOf, poll } from "../link/api";
import type { Campaigns, ListedCampaign } from "../link/replies";
import { countsText } from "../live/queue";
import * as notices from "../shell/notices";
import { address } from "../shell/nav";
import { age, bytes, counted, date, duration, energy } from "../text/format";
import * as compare from "./compare";

const EVERY_SECONDS = 5;
let list: ListedCampaign[] = [];
let chosen: string[] = [];

export function start(): void {
  id<HTMLSelectElement>("history-kind").addEventListener("change", draw);
  poll<Campaigns>({
    address: () => addressOf("/api/campaigns"),
    everySeconds: EVERY_SECONDS,
    onReply: ({ campaigns, problem }) => {
      notices.setOwn(problem ? [["warn", problem]] : []);
      id("page").classList.remove("stale");
      list = campaigns;
      draw();
    },
    onProblem: (why, seconds) => {
      id("page").classList.add("stale");
      notices.setOwn([["bad", `The campaigns cannot be read: ${why}.` + (seconds === null ? "" : ` What is here is of ${age(seconds)}.`)]]);
    },
  });
  void compare.show([]);
}

function draw(): void {
  const kind = id<HTMLSelectElement>("history-kind").value;
  const rows = list.filter((one) => !kind || one.kind === kind);
  setText(id("history-about"), counted(rows.length, "campaign"));
  showTable(
    id("history"),
    {
      caption: "Campaigns, the newest first",
      keyOf: ({ id: campaign }) => campaign,
      empty: kind ? "None of this kind." : "No campaign yet: 'rig run playbooks/demo.yml' starts one.",
      columns: [
        { head: "Campaign", fill: (cell, one) => cell.replaceChildren(make("a", { href: address("campaign", one.id) }, one.name), make("small", {}, " " + one.id)) },
        { head: "Question", kind: () => "question-cell", text: ({ question }) => question },
        { head: "Kind", text: ({ kind: of, virtual }) => of + (virtual ? ", virtual lab" : "") },
        { head: "Planned", text: ({ created_ns }) => date(created_ns) },
        { head: "Took", numeric: true, text: took },
        { head: "State", text: stateText },
        { head: "Runs", text: ({ counts, total }) => countsText(counts) || String(total) },
        { head: "Energy", numeric: true, text: ({ kwh, kwh_missing }) => (kwh_missing && kwh !== null ? "≥ " : "") + energy(kwh) },
        { head: "Written", numeric: true, text: ({ written_bytes }) => bytes(written_bytes) },
        { head: "Reports", fill: fillReports },
        { head: "Compare", fill: (cell, one) => cell.replaceChildren(checkbox(one)) },
      ],
    },
    rows,
  );
}

export const took = ({ created_ns, finished_ns }: Pick<ListedCampaign, "created_ns" | "finished_ns">): string =>
  finished_ns === null ? "–" : duration((finished_ns - created_ns) / 1e9);

export function stateText({ state, executed, asked, finished_ns }: Pick<ListedCampaign, "state" | "executed" | "asked" | "finished_ns">): string {
  if (finished_ns !== null) return "✓ finished";
  const paused = asked ? `, asked to ${asked}` : "";
  return executed ? `▶ ${state}${paused}` : `○ ${state}${paused}; no process executes it`;
}

// A report's address: each part of its path is encoded, its slashes stay.
export const fileAddress = (campaign: string, path: string): string =>
  ["/files", campaign, ...path.split("/")].map((part) => (part.startsWith("/") ? part : encodeURIComponent(part))).join("/");

function fillReports(cell: HTMLElement, { id: campaign, reports }: ListedCampaign): void {
  cell.replaceChildren(
    ...reports.flatMap(({ name, path, bytes: size }) => [
      make("a", { href: fileAddress(campaign, path), title: bytes(size), target: "_blank", rel: "noopener" }, name),
      " ",
    ]),
  );
  if (!reports.length) setText(cell, "–");
}

function checkbox({ id: campaign, name }: ListedCampaign): HTMLElement {
  const box = make("input", { type: "checkbox", "aria-label": `compare ${name} ${campaign}` });
  box.checked = chosen.includes(campaign);
  box.addEventListener("change", () => {
    chosen = toggle(chosen, campaign, box.checked);
    for (const other of document.querySelectorAll<HTMLInputElement>("#history input[type=checkbox]"))
      other.checked = chosen.some((one) => other.getAttribute("aria-label")?.endsWith(" " + one));
    void compare.show(chosen.map((one) => list.find((row) => row.id === one)).filter((row) => row !== undefined));
  });
  return box;
}

// The last two that were chosen.
export const toggle = (now: readonly string[], campaign: string, on: boolean): string[] =>
  [...now.filter((one) => one !== campaign), ...(on ? [campaign] : [])].slice(-2);
