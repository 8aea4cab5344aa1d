// SPDX-License-Identifier: GPL-3.0-or-later
// Operations and throughput of each drive: two charts, and the newest figures in a table that is
// their legend.
import { Strip } from "./chart.js";
import { id, keyed, make, setText } from "./dom.js";
import { fixed, number } from "./format.js";
import { driveClass, driveColour, driveDash, driveLooks } from "./theme.js";
import { driveWatts } from "./power.js";
import * as phases from "./phases.js";

// Columns of an I/O section: reads/s, writes/s, flushes/s, read MB/s, write MB/s
// (rig/dashboard/feed.py).
let drives = [];
let looks = new Map();
let charts = [];

export function setLayout(io, rails, span) {
  const all = new Map();
  io.forEach((drive, channel) => all.set(drive.host + "/" + drive.drive, { ...drive, channel }));
  for (const { host, drive } of rails)
    if (!all.has(host + "/" + drive)) all.set(host + "/" + drive, { host, drive, channel: null });
  drives = [...all.entries()]
    .map(([key, drive]) => ({ key, ...drive }))
    .sort(phases.inOrder);
  looks = driveLooks(drives.map((drive) => drive.key));
  const measured = drives.filter((drive) => drive.channel !== null);
  const series = () =>
    measured.map((drive) => ({
      stroke: driveColour(looks.get(drive.key)),
      dash: driveDash(looks.get(drive.key)),
      width: 1.25,
      points: { show: false },
      spanGaps: false,
    }));
  charts = [
    ["iops", (columns) => [columns[0], columns[1]]],
    ["mbps", (columns) => [columns[3], columns[4]]],
  ].map(([name, pick]) => {
    const element = id(name);
    element.replaceChildren();
    return { pick, measured, strip: new Strip({ element, series, span }) };
  });
}

export function draw(window, end) {
  for (const { pick, measured, strip } of charts) {
    const rows = measured.map(({ channel }) => window.channels[channel]);
    if (rows.some((columns) => !columns)) return;
    strip.show([window.times, ...rows.map((columns) => sum(...pick(columns)))], end);
  }
}

const sum = (a, b) => a.map((value, i) => (value === null || b[i] === null ? null : value + b[i]));

export function drawNumbers(io, power) {
  const manyHosts = new Set(drives.map((drive) => drive.host)).size > 1;
  keyed(
    id("drives").tBodies[0],
    drives,
    (drive) => drive.key,
    (drive) =>
      make(
        "tr",
        { "data-drive": drive.drive },
        make("th", { scope: "row" }, make("i"), manyHosts ? drive.key : drive.drive),
        ...Array.from({ length: 6 }, () => make("td", { class: "n" })),
      ),
    (row, drive) => {
      row.querySelector("i").className = `swatch ${driveClass(looks.get(drive.key))}`;
      const figures =
        drive.channel === null
          ? ["–", "–", "–", "–", "–"]
          : [0, 1, 2, 3, 4].map((column) => number(io.recent(drive.channel, column)));
      [fixed(driveWatts(power, drive.host, drive.drive), 2), ...figures].forEach((text, i) =>
        setText(row.children[i + 1], text),
      );
      row.classList.toggle("busy", phases.driveBands(drive.host, drive.drive).some((band) => band.end_ns === null));
    },
  );
}
