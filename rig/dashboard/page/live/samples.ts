// SPDX-License-Identifier: GPL-3.0-or-later
// Volts and amps of a drive's rails at full rate, of the last seconds, when a person asks for them.
import uPlot from "uplot";
import { railBand, railSeries } from "../charts/rails";
import { axis } from "../charts/strip";
import { id, make, setText } from "../dom/elements";
import { addressOf, fetchJson } from "../link/api";
import { counted, number } from "../text/format";

type Column = (number | null)[];

export interface RailSamples {
  meter: string;
  rail: string;
  sample_rate_hz: number;
  start_ns: number;
  complete: boolean;
  constant_volts?: number;
  volts?: Column;
  amps?: Column;
  watts?: Column;
}

export interface Samples {
  rails: RailSamples[];
}

const SECONDS = 2; // powerd keeps five
const AGAIN_MS = 700;
const BUCKETS = 900; // a few a pixel are not seen

// Each bucket's greatest and least value and its mean; null where it has none.
export function reduce(values: Column, buckets: number): { max: Column; min: Column; mean: Column } {
  const count = Math.min(buckets, values.length);
  const max: Column = [];
  const min: Column = [];
  const mean: Column = [];
  for (let i = 0; i < count; i++) {
    const part = values.slice(Math.floor((i * values.length) / count), Math.floor(((i + 1) * values.length) / count)).filter((value) => value !== null);
    max.push(part.length ? part.reduce((a, b) => Math.max(a, b)) : null);
    min.push(part.length ? part.reduce((a, b) => Math.min(a, b)) : null);
    mean.push(part.length ? part.reduce((a, b) => a + b, 0) / part.length : null);
  }
  return { max, min, mean };
}

const QUANTITIES = [
  ["volts", "V"],
  ["amps", "A"],
  ["watts", "W"],
] as const;

export type Quantity = (typeof QUANTITIES)[number][0];

// The quantities that any rail has, with the rails that have them.
export const shownQuantities = ({ rails }: Samples): { quantity: Quantity; unit: string; rails: RailSamples[] }[] =>
  QUANTITIES.map(([quantity, unit]) => ({ quantity, unit, rails: rails.filter((rail) => rail[quantity]?.length) })).filter(
    (one) => one.rails.length,
  );

// What a rail's samples are, in words.
export function describe(rail: RailSamples): string {
  const count = (rail.volts ?? rail.amps ?? rail.watts)?.length ?? 0;
  const words = [
    `${rail.rail}: ${counted(count, "sample")} at ${number(rail.sample_rate_hz, 4)} Hz by ${rail.meter}`,
    rail.constant_volts ? `its volts are stated: ${rail.constant_volts} V` : "",
    rail.complete ? "" : "▲ fewer than asked for, as yet",
  ];
  return words.filter(Boolean).join("; ");
}

let plots: uPlot[] = [];
let again: ReturnType<typeof setTimeout> | undefined;
let of = { host: "", drive: "" };

// The button of a drive's card.
export function button(host: string, drive: string): HTMLElement {
  const label = `volts and amps of ${drive} at full rate`;
  const element = make("button", { type: "button", class: "at-full-rate", title: label, "aria-label": label }, "∿");
  element.addEventListener("click", () => {
    of = { host, drive };
    setText(id("samples-title"), `${drive}, the last ${SECONDS} s at full rate`);
    setText(id("samples-words"), "asking powerd…");
    id<HTMLDialogElement>("samples").showModal();
    void ask();
  });
  return element;
}

export function start(): void {
  id("samples-again").addEventListener("click", () => void ask());
  id("samples-close").addEventListener("click", () => id<HTMLDialogElement>("samples").close());
}

async function ask(): Promise<void> {
  clearTimeout(again);
  try {
    const samples = await fetchJson<Samples>(addressOf("/api/samples", { ...of, seconds: SECONDS }));
    draw(samples);
    setText(id("samples-words"), samples.rails.map(describe).join("\n") || "No meter has samples of this drive.");
    // powerd keeps them from the first time that they are asked for.
    const whole = samples.rails.every(({ complete }) => complete);
    if (!whole && id<HTMLDialogElement>("samples").open) again = setTimeout(() => void ask(), AGAIN_MS);
  } catch (error) {
    draw({ rails: [] });
    setText(id("samples-words"), `✕ ${error instanceof Error ? error.message : String(error)}`);
  }
}

function draw(samples: Samples): void {
  for (const plot of plots) plot.destroy();
  const place = id("samples-plots");
  plots = shownQuantities(samples).map(({ quantity, unit, rails }) => {
    const reduced = rails.map((rail) => reduce(rail[quantity] ?? [], BUCKETS));
    const buckets = Math.max(...reduced.map(({ mean }) => mean.length));
    const seconds = Math.max(...rails.map((rail) => (rail[quantity]?.length ?? 0) / rail.sample_rate_hz));
    const times = Array.from({ length: buckets }, (_, i) => ((i + 0.5) / buckets - 1) * seconds);
    return new uPlot(
      {
        width: place.clientWidth || 600,
        height: 150,
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { time: false } },
        axes: [
          { ...axis(), size: 20, values: (_, splits) => splits.map((value) => `${Number(value.toFixed(3))} s`) },
          { ...axis(), size: 56, values: (_, splits) => splits.map((value) => `${Number(value.toFixed(4))} ${unit}`) },
        ],
        series: [{}, ...rails.flatMap((_, index) => railSeries(index))],
        bands: rails.map((_, index) => railBand(index)),
      },
      [times, ...reduced.flatMap(({ max, min, mean }) => [max, min, mean])],
      place,
    );
  });
}
