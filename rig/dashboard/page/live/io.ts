// SPDX-License-Identifier: GPL-3.0-or-later
// Operations and throughput of each drive: two charts, and the newest figures in a table that is
// their legend.
import * as phases from "../charts/phases";
import { Strip } from "../charts/strip";
import { id, keyed, make, setText, within } from "../dom/elements";
import { driveClass, driveDash, driveLooks } from "../dom/looks";
import { driveColour } from "../dom/theme";
import type { DriveName, RailName } from "../link/messages";
import type { Row, Window } from "../link/window";
import { fixed, latency, number } from "../text/format";
import { meanSeconds, REQUESTS } from "./latency";
import { driveWatts } from "./power";

interface Drive extends DriveName {
  key: string;
  channel: number | null; // null: its host reports no I/O of it
}

interface Chart {
  pick: (columns: Row[]) => [Row, Row];
  channels: number[];
  strip: Strip;
}

// Columns of an I/O section: reads/s, writes/s, flushes/s, read MB/s, write MB/s, and those of
// latency (rig/dashboard/feed.py).
const FIGURES = 5;
const CHARTS: ReadonlyArray<readonly [element: string, pick: Chart["pick"]]> = [
  ["iops", (columns) => [columns[0]!, columns[1]!]],
  ["mbps", (columns) => [columns[3]!, columns[4]!]],
];
let drives: Drive[] = [];
let looks = new Map<string, number>();
let charts: Chart[] = [];

export function setLayout(io: DriveName[], rails: RailName[], span: number): void {
  const all = new Map<string, Drive>();
  const add = ({ host, drive }: DriveName, channel: number | null) => {
    const key = host + "/" + drive;
    if (!all.has(key)) all.set(key, { key, host, drive, channel });
  };
  io.forEach((drive, channel) => add(drive, channel));
  for (const rail of rails) add(rail, null);
  drives = [...all.values()].sort(phases.inOrder);
  looks = driveLooks(drives.map((drive) => drive.key));
  const measured = drives.filter((drive) => drive.channel !== null);
  const series = () =>
    measured.map(({ key }) => ({
      stroke: driveColour(looks.get(key)!),
      dash: driveDash(looks.get(key)!) ?? [],
      width: 1.25,
      points: { show: false },
      spanGaps: false,
    }));
  charts = CHARTS.map(([name, pick]) => {
    const element = id(name);
    element.replaceChildren();
    return { pick, channels: measured.map(({ channel }) => channel!), strip: new Strip({ element, series, span }) };
  });
}

// The channel of each drive whose host reports its I/O, by "host/drive".
export const channels = (): ReadonlyMap<string, number> =>
  new Map(drives.flatMap(({ key, channel }) => (channel === null ? [] : [[key, channel] as const])));

export function draw(window: Window, end: number): void {
  for (const { pick, channels, strip } of charts) {
    const rows = channels.map((channel) => window.channels[channel]).filter((columns) => columns !== undefined);
    if (rows.length < channels.length) return;
    strip.show([window.times, ...rows.map((columns) => sum(...pick(columns)))], end);
  }
}

export const sum = (a: Row, b: Row): Row =>
  a.map((value, i) => {
    const other = b[i] ?? null;
    return value === null || other === null ? null : value + other;
  });

export function drawNumbers(io: Window, power: Window): void {
  const manyHosts = new Set(drives.map((drive) => drive.host)).size > 1;
  keyed(
    within<HTMLTableElement>(id("drives"), "tbody"),
    drives,
    (drive) => drive.key,
    (drive) =>
      make(
        "tr",
        { "data-drive": drive.drive },
        make("th", { scope: "row" }, make("i"), manyHosts ? drive.key : drive.drive),
        ...Array.from({ length: 1 + FIGURES + REQUESTS.length }, () => make("td", { class: "n" })),
      ),
    (row, drive) => {
      within(row, "i").className = `swatch ${driveClass(looks.get(drive.key)!)}`;
      const figures = Array.from({ length: FIGURES }, (_, column) =>
        drive.channel === null ? "–" : number(io.recent(drive.channel, column)),
      );
      const means = REQUESTS.map((one) => latency(drive.channel === null ? null : meanSeconds(io, drive.channel, one)));
      [fixed(driveWatts(power, drive.host, drive.drive), 2), ...figures, ...means].forEach((text, i) =>
        setText(row.children[i + 1]!, text),
      );
      row.classList.toggle("busy", phases.driveBands(drive.host, drive.drive).some((band) => band.end_ns === null));
    },
  );
}
