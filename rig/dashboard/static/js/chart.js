// SPDX-License-Identifier: GPL-3.0-or-later
// A uPlot strip chart of the last minute that fills its element and follows the colour scheme.
import uPlot from "/vendor/uPlot.esm.js";
import { colour, onSchemeChange } from "./theme.js";
import { number } from "./format.js";

const FONT = "10px system-ui, sans-serif";

export class Strip {
  // options: element, height, series (function that gives uPlot series), bands, span, fromZero, behind (hook)
  constructor(options) {
    this.options = options;
    this.data = null;
    this.build();
    new ResizeObserver(() => {
      const width = options.element.clientWidth;
      if (width && width !== this.plot.width) this.plot.setSize({ width, height: options.height });
    }).observe(options.element);
    onSchemeChange(() => this.build());
  }

  build() {
    this.plot?.destroy();
    const { element, height, series, bands, span, fromZero, behind } = this.options;
    const axis = () => ({
      stroke: colour("muted"),
      font: FONT,
      grid: { stroke: colour("grid"), width: 1 },
      ticks: { show: false },
    });
    this.plot = new uPlot(
      {
        width: element.clientWidth || 260,
        height,
        padding: [6, 4, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { time: false, auto: false },
          y: {
            range: (u, low, high) => {
              if (low === null || high === null) return [0, 1];
              const bottom = !fromZero || fromZero() ? Math.min(0, low) : low;
              const room = (high - bottom || Math.abs(high) || 1) * 0.12;
              return [bottom === 0 ? 0 : bottom - room, high + room];
            },
          },
        },
        axes: [
          {
            ...axis(),
            size: 18,
            gap: 2,
            splits: (u) => [-60, -45, -30, -15, 0].map((s) => u.scales.x.max + (s / 60) * span),
            values: (u, splits) => splits.map((s) => (s === u.scales.x.max ? "" : Math.round(s - u.scales.x.max) + " s")),
          },
          { ...axis(), size: 42, gap: 3, space: 22, values: (u, splits) => splits.map((v) => number(v, 2)) },
        ],
        series: [{}, ...series()],
        bands,
        hooks: { drawClear: behind ? [behind] : [] },
      },
      this.data,
      element,
    );
  }

  // Redraw with `data` (uPlot's aligned arrays), the newest end at `end` seconds.
  show(data, end) {
    this.data = data;
    this.plot.batch(() => {
      this.plot.setData(data, false);
      this.plot.setScale("x", { min: end - this.options.span, max: end });
    });
  }
}
