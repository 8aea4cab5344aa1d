// SPDX-License-Identifier: GPL-3.0-or-later
// A uPlot strip chart of the last minute that fills its element and follows the colour scheme.
import uPlot from "uplot";
import { colour, onSchemeChange } from "../dom/theme";
import { tick } from "../text/format";

export const FONT = "10px system-ui, sans-serif";

export interface StripOptions {
  element: HTMLElement;
  series: () => uPlot.Series[];
  bands?: () => uPlot.Band[];
  span: number; // seconds
  behind?: (u: uPlot) => void;
}

export const axis = (): uPlot.Axis => ({
  stroke: colour("muted"),
  font: FONT,
  grid: { stroke: colour("grid"), width: 1 },
  ticks: { show: false },
});

// From zero: a cut axis makes small differences look like large ones.
export function fromZero(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1];
  const room = (Math.max(high, 0) - Math.min(low, 0) || 1) * 0.12;
  return [low < 0 ? low - room : 0, Math.max(high, 0) + room];
}

export class Strip {
  private data: uPlot.AlignedData | undefined;
  private plot!: uPlot;

  constructor(private readonly options: StripOptions) {
    this.build();
    new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = options.element;
      if (width && height && (width !== this.plot.width || height !== this.plot.height))
        this.plot.setSize({ width, height });
    }).observe(options.element);
    onSchemeChange(() => this.build());
  }

  private build(): void {
    this.plot?.destroy();
    const { element, series, bands, span, behind } = this.options;
    const newest = (u: uPlot) => u.scales.x?.max ?? 0;
    this.plot = new uPlot(
      {
        width: element.clientWidth || 260,
        height: element.clientHeight || 90,
        padding: [6, 4, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { time: false, auto: false }, y: { range: (_, low, high) => fromZero(low, high) } },
        axes: [
          {
            ...axis(),
            size: 18,
            gap: 2,
            splits: (u) => [-60, -45, -30, -15, 0].map((s) => newest(u) + (s / 60) * span),
            values: (u, splits) =>
              splits.map((s, i) => (i % (splits.length - 1) ? Math.round(s - newest(u)) + " s" : "")), // ends would be cut
          },
          { ...axis(), size: 42, gap: 3, space: 18, values: (_, splits) => splits.map((v) => tick(v)) },
        ],
        series: [{}, ...series()],
        ...(bands ? { bands: bands() } : {}),
        hooks: { drawClear: behind ? [behind] : [] },
      },
      this.data,
      element,
    );
  }

  // Redraw with `data` (uPlot's aligned arrays), the newest end at `end` seconds.
  show(data: uPlot.AlignedData, end: number): void {
    this.data = data;
    this.plot.batch(() => {
      this.plot.setData(data, false);
      this.plot.setScale("x", { min: end - this.options.span, max: end });
    });
  }
}
