// SPDX-License-Identifier: GPL-3.0-or-later
// How a line with its extremes is drawn. Three columns: greatest, least, mean; the band is drawn
// between the first two.
import type uPlot from "uplot";
import { railColour } from "../dom/theme";

export function railSeries(index: number): uPlot.Series[] {
  const edge: uPlot.Series = { stroke: "transparent", points: { show: false } };
  return [edge, { ...edge }, { stroke: railColour(index), width: 1.25, points: { show: false } }];
}

export const railBand = (index: number): uPlot.Band => ({
  series: [3 * index + 1, 3 * index + 2],
  fill: railColour(index) + "38",
});
