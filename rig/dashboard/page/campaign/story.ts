// SPDX-License-Identifier: GPL-3.0-or-later
// What a campaign used and wrote, what went wrong, what happened, and its log.
import { emptiness, id, keyed, make, setText, within } from "../dom/elements";
import { showTable } from "../dom/table";
import type { Run } from "../link/messages";
import type { CampaignDetail, Endurance } from "../link/replies";
import { SYMBOLS } from "../live/queue";
import { age, bytes, energy, share, time } from "../text/format";

const NOT_COMPLETE: readonly string[] = ["partial", "failed", "lost", "refused", "not-run"];
const WORN = 0.8; // of what a drive is rated for: a warning's worth

export function show(detail: CampaignDetail): void {
  showSums(detail);
  showEndurance(detail.endurance);
  showEvents(detail.events);
  showLog(detail.log);
}

export function sums({ kwh, kwh_missing, endurance }: Pick<CampaignDetail, "kwh" | "kwh_missing" | "endurance">): [string, string][] {
  const known = endurance.filter(({ written_bytes }) => written_bytes !== null);
  const written = known.reduce((sum, one) => sum + (one.written_bytes ?? 0), 0);
  return [
    ["Energy of the rails under test", (kwh_missing && kwh !== null ? "≥ " : "") + energy(kwh)],
    ["Phases of a rail without energy", kwh_missing ? `▲ ${kwh_missing}` : "none"],
    ["Written", (known.length < endurance.length ? "≥ " : "") + (known.length ? bytes(written) : "–")],
  ];
}

function showSums(detail: CampaignDetail): void {
  keyed(
    id("sums"),
    sums(detail),
    ([name]) => name,
    ([name]) => make("div", {}, make("dt", {}, name), make("dd")),
    (line, [, text]) => setText(within(line, "dd"), text),
  );
}

function showEndurance(list: Endurance[]): void {
  showTable(
    id("endurance"),
    {
      caption: "Bytes written by drive",
      keyOf: ({ host, drive }) => host + "/" + drive,
      empty: "No drive.",
      kind: ({ fraction }) => (fraction !== null && fraction >= WORN ? "warn" : ""),
      columns: [
        { head: "Drive", text: ({ drive }) => drive },
        { head: "Written", numeric: true, text: ({ written_bytes }) => bytes(written_bytes) },
        { head: "Rated", numeric: true, text: ({ rated_bytes }) => bytes(rated_bytes) },
        { head: "Share", numeric: true, text: ({ fraction }) => (fraction !== null && fraction >= WORN ? "▲ " : "") + share(fraction) },
        { head: "Counted", text: ({ by }) => (by === "record" ? "all runs" : "loads alone") },
      ],
    },
    list,
  );
}

export function showRuns(runs: readonly Run[]): void {
  showTable(
    id("failures"),
    {
      caption: "Runs that are not complete",
      keyOf: ({ id: run }) => run,
      empty: "None.",
      kind: ({ status }) => "run-line status-" + status,
      columns: [
        { head: "Run", text: ({ ordinal }) => String(ordinal) },
        { head: "Cell", text: ({ drive, filesystem, scheduler, workload }) => [drive, filesystem, scheduler, workload].join(" / ") },
        { head: "Status", kind: () => "status", text: ({ status }) => `${SYMBOLS[status]} ${status}` },
        { head: "Reason", kind: () => "reason", text: ({ reason }) => reason || "–" },
      ],
    },
    runs.filter(({ status }) => NOT_COMPLETE.includes(status)),
  );
}

function showEvents(events: CampaignDetail["events"]): void {
  const place = id("events");
  emptiness(place, events.length ? null : "Nothing yet.");
  if (!events.length) return;
  const seen = new Map<string, number>(); // several may have one instant
  const keys = events.map(({ time_ns, kind, run }) => {
    const key = `${time_ns}|${kind}|${run}`;
    seen.set(key, (seen.get(key) ?? 0) + 1);
    return `${key}|${seen.get(key)}`;
  });
  const newestFirst = events.map((event, i) => ({ ...event, key: keys[i]! })).reverse();
  keyed(
    place,
    newestFirst,
    ({ key }) => key,
    ({ time_ns, text }) => make("p", { class: "event" }, make("time", {}, time(time_ns)), " ", text),
    () => undefined,
  );
}

function showLog({ lines, age_seconds, why }: CampaignDetail["log"]): void {
  const place = id("log");
  setText(id("log-age"), lines.length ? `written ${age(age_seconds)}` : "");
  const atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 20;
  setText(place, lines.length ? lines.join("\n") : why || "No log.");
  if (atEnd) place.scrollTop = place.scrollHeight;
}
