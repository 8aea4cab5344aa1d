// SPDX-License-Identifier: GPL-3.0-or-later
// A uPlot strip chart of the last minute that fills its element and follows the colour scheme.
import uPlot from "/vendor/uPlot.esm.js";
import { colour, onSchemeChange } from "./theme.js";
import { tick } from "./format.js";

const FONT = "10px system-ui, sans-serif";

export class Strip {
  // options: element, series and bands (functions that give uPlot's), span (seconds), behind (hook)
  constructor(options) {
    this.options = options;
    this.data = null;
    this.build();
    new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = options.element;
      if (width && height && (width !== this.plot.width || height !== this.plot.height))
        this.plot.setSize({ width, height });
    }).observe(options.element);
    onSchemeChange(() => this.build());
  }

  build() {
    this.plot?.destroy();
    const { element, series, bands, span, behind } = this.options;
    const axis = () => ({
      stroke: colour("muted"),
      font: FONT,
      grid: { stroke: colour("grid"), width: 1 },
      ticks: { show: false },
    });
    this.plot = new uPlot(
      {
        width: element.clientWidth || 260,
        height: element.clientHeight || 90,
        padding: [6, 4, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { time: false, auto: false },
          y: {
            range: (u, low, high) => {
              if (low === null || high === null) return [0, 1];
              // From zero: a cut axis makes small differences look like large ones.
              const room = (Math.max(high, 0) - Math.min(low, 0) || 1) * 0.12;
              return [low < 0 ? low - room : 0, Math.max(high, 0) + room];
            },
          },
        },
        axes: [
          {
            ...axis(),
            size: 18,
            gap: 2,
            splits: (u) => [-60, -45, -30, -15, 0].map((s) => u.scales.x.max + (s / 60) * span),
            values: (u, splits) =>
              splits.map((s, i) => (i % (splits.length - 1) ? Math.round(s - u.scales.x.max) + " s" : "")), // ends would be cut
          },
          { ...axis(), size: 42, gap: 3, space: 18, values: (u, splits) => splits.map((v) => tick(v)) },
        ],
        series: [{}, ...series()],
        bands: bands?.(),
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
