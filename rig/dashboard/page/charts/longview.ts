// SPDX-License-Identifier: GPL-3.0-or-later
// Minutes to months of one drive: as many buckets as there are pixels, each with its mean and its
// extremes, so that no peak is lost. Zoomed and moved by wheel, drag, buttons and keys.
import uPlot from "uplot";
import { changed, id, make, setText } from "../dom/elements";
import { onSchemeChange } from "../dom/theme";
import { addressOf, fetchJson } from "../link/api";
import { isKnown, now } from "../link/clock";
import type { DriveName } from "../link/messages";
import { number, tick, timeLabel } from "../text/format";
import { hatch, type Stretch } from "./gaps";
import { shade } from "./phases";
import { afterKey, clamp, move, widthText, zoom, type Range } from "./range";
import { axis, fromZero } from "./strip";
import { railBand, railSeries } from "./rails";
import { gaps, ioLines, powerLines, times, type IoView, type Line, type PowerView, type Shown } from "./views";

const WAIT_MS = 150; // a turn of the wheel is many events
const FOLLOW_MS = 2000;
const RETRY_MS = 5000;
const REFRESH_MS = 30000; // of a view that does not follow, while points for it may still come:
const SPOOLS_SECONDS = 3600; // writers keep them while InfluxDB is away
const MOST_POINTS = 4000; // as the server allows
const GAP_SECONDS = 3;
const PRESETS: ReadonlyArray<readonly [name: string, seconds: number]> = [
  ["10 min", 600],
  ["1 h", 3600],
  ["1 d", 86400],
  ["1 w", 7 * 86400],
  ["30 d", 30 * 86400],
];
const SHOWN: Record<Shown, string> = { watts: "W by rail", iops: "operations/s", mbps: "MB/s" };

export class LongView {
  private range: Range | null = null;
  private wanted: (() => Range) | null = null; // shown once the server's time is known
  private follows = true; // its end is now
  private drives: DriveName[] = [];
  private plot: uPlot | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private asked: AbortController | null = null;
  private view: (PowerView | IoView) | null = null;
  private lines: Line[] = [];
  private stretches: Stretch[] = [];
  private readonly drive = make("select", { "aria-label": "Drive" });
  private readonly shown = make("select", { "aria-label": "Shown" }, ...Object.entries(SHOWN).map(([value, name]) => make("option", { value }, name)));
  private readonly box = make("div", {
    class: "longview",
    tabindex: 0,
    role: "application",
    "aria-label": "Trace over time. Arrow keys move, plus and minus zoom, End shows the newest.",
  });
  private readonly legend = make("p", { class: "legend" });
  private readonly words = make("p", { class: "key", role: "status" });

  constructor(place: HTMLElement, private readonly seconds = 600) {
    const button = (text: string, label: string, act: () => void) => {
      const element = make("button", { type: "button", "aria-label": label, title: label }, text);
      element.addEventListener("click", act);
      return element;
    };
    const key = (text: string, label: string, name: string) => button(text, label, () => this.press(name));
    place.replaceChildren(
      make(
        "p",
        { class: "buttons" },
        this.drive,
        this.shown,
        key("◀", "earlier", "ArrowLeft"),
        key("▶", "later", "ArrowRight"),
        key("+", "zoom in", "+"),
        key("−", "zoom out", "-"),
        ...PRESETS.map(([name, width]) => button(name, `the last ${name}`, () => this.last(width))),
        key("now", "the newest", "End"),
      ),
      this.box,
      this.legend,
      this.words,
    );
    this.drive.addEventListener("change", () => this.ask(0));
    this.shown.addEventListener("change", () => this.ask(0));
    this.listen();
    onSchemeChange(() => this.draw());
    new ResizeObserver(() => this.ask(WAIT_MS)).observe(this.box);
  }

  setDrives(drives: readonly DriveName[]): void {
    this.drives = [...new Map(drives.map((one) => [`${one.host}/${one.drive}`, one])).values()];
    if (!changed(this.drive, this.drives)) return;
    const kept = this.drive.value;
    this.drive.replaceChildren(...this.drives.map(({ host, drive }) => make("option", { value: `${host}/${drive}` }, drive)));
    this.drive.value = this.drives.some(({ host, drive }) => `${host}/${drive}` === kept) ? kept : (this.drive.options[0]?.value ?? "");
    this.ask(0);
  }

  last(seconds: number): void {
    this.follows = true;
    this.show({ from: now() - seconds, to: now() });
  }

  show(range: Range): void {
    const newest = now();
    this.range = clamp(range, newest);
    this.follows = newest - this.range.to < 0.02 * (this.range.to - this.range.from);
    this.plot?.setScale("x", { min: this.range.from, max: this.range.to });
    this.ask(WAIT_MS);
  }

  showWhenTimeIsKnown(wanted: () => Range): void {
    this.wanted = wanted;
    this.ask(0);
  }

  private press(key: string): void {
    if (!this.range) return this.last(this.seconds);
    const next = afterKey(this.range, key, now());
    if (next) this.show(next);
  }

  private listen(): void {
    this.box.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || !this.range || !afterKey(this.range, event.key, now())) return;
      event.preventDefault();
      this.press(event.key);
    });
    this.box.addEventListener(
      "wheel",
      (event) => {
        if (!this.range || !this.plot) return;
        event.preventDefault();
        this.show(zoom(this.range, event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(event.clientX), now()));
      },
      { passive: false },
    );
    this.box.addEventListener("pointerdown", (down) => {
      const range = this.range;
      if (!range || !this.plot) return;
      const perPixel = (range.to - range.from) / this.plot.over.clientWidth;
      this.box.setPointerCapture(down.pointerId);
      this.box.onpointermove = (event) => this.show(move(range, (down.clientX - event.clientX) * perPixel, now()));
      this.box.onpointerup = this.box.onpointercancel = () => (this.box.onpointermove = null);
    });
  }

  private timeAt(clientX: number): number {
    const { left } = this.plot!.over.getBoundingClientRect();
    return this.plot!.posToVal(clientX - left, "x");
  }

  private ask(wait: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.fetch(), wait);
  }

  private async fetch(): Promise<void> {
    const chosen = this.drives.find(({ host, drive }) => `${host}/${drive}` === this.drive.value);
    if (!chosen || !isKnown() || document.hidden) return this.ask(isKnown() ? FOLLOW_MS : WAIT_MS);
    if (this.wanted) {
      this.range = clamp(this.wanted(), now());
      this.follows = now() - this.range.to < 1;
      this.wanted = null;
    }
    this.range ??= { from: now() - this.seconds, to: now() };
    if (this.follows) this.range = clamp({ from: now() - (this.range.to - this.range.from), to: now() }, now());
    const shown = this.shown.value as Shown;
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    const address = addressOf(shown === "watts" ? "/api/power" : "/api/io", {
      host: chosen.host,
      drive: chosen.drive,
      from_ns: nanoseconds(this.range.from),
      to_ns: nanoseconds(this.range.to),
      points: Math.min(MOST_POINTS, Math.max(50, Math.round(this.box.clientWidth))),
    });
    try {
      const view = await fetchJson<PowerView & IoView>(address, { signal: asked.signal });
      this.view = view;
      this.lines = shown === "watts" ? powerLines(view) : ioLines(view, shown);
      this.stretches = gaps(shown === "watts" ? view : { ...view, rails: [] }, this.lines, GAP_SECONDS);
      this.draw();
      this.describe(view);
    } catch (error) {
      if (asked.signal.aborted) return;
      setText(this.words, `✕ ${error instanceof Error ? error.message : String(error)}; what is drawn is older.`);
      return this.ask(RETRY_MS);
    }
    if (this.follows) this.ask(Math.max(FOLLOW_MS, (1000 * (this.range.to - this.range.from)) / MOST_POINTS));
    else if (this.range.to > now() - SPOOLS_SECONDS) this.ask(REFRESH_MS);
  }

  private describe(view: PowerView | IoView): void {
    const left = view.bands_left_out ? `; ${view.bands_left_out} phases are too narrow to be shown` : "";
    const nothing = this.lines.every(({ mean }) => mean.every((value) => value === null));
    setText(
      this.words,
      nothing
        ? `Nothing was measured in these ${widthText(this.range!)}.`
        : `${widthText(this.range!)}, UTC; a point is ${number(view.bucket_ns / 1e9)} s: line: mean, band: minimum to maximum${this.stretches.length ? "; hatched: gaps" : ""}${left}`,
    );
    if (changed(this.legend, this.lines.map(({ name }) => name)))
      this.legend.replaceChildren(
        ...this.lines.map(({ name }, i) => make("span", {}, make("i", { class: `swatch rail-${i % 4}` }), name)),
      );
  }

  private draw(): void {
    const { view, lines, range } = this;
    if (!view || !range || !this.box.clientWidth) return;
    this.plot?.destroy();
    const bands = shade(() => (view.bands ?? []).map((band) => ({ ...band, campaign: "", host: view.host, drive: view.drive })));
    this.plot = new uPlot(
      {
        width: this.box.clientWidth,
        height: this.box.clientHeight,
        padding: [6, 6, 0, 0],
        legend: { show: false },
        cursor: { drag: { x: false, y: false, setScale: false } },
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        scales: { x: { time: true, auto: false, range: [range.from, range.to] }, y: { range: (_, low, high) => fromZero(low, high) } },
        axes: [{ ...axis(), size: 20, space: 70, values: (_, splits, __, ___, step) => splits.map((value) => timeLabel(value, step)) }, { ...axis(), size: 46, values: (_, splits) => splits.map((value) => tick(value)) }],
        series: [{}, ...lines.flatMap((_, index) => railSeries(index))],
        bands: lines.map((_, index) => railBand(index)),
        hooks: { drawClear: [bands, (u) => hatch(u, this.stretches)] },
      },
      [times(view), ...lines.flatMap(({ max, min, mean }) => [max, min, mean])],
      this.box,
    );
    this.plot.setScale("x", { min: range.from, max: range.to });
  }
}

// Nanoseconds do not fit into a number: they are written as text.
export const nanoseconds = (seconds: number): string => String(BigInt(Math.round(seconds * 1e3)) * 1_000_000n);

export const longView = (seconds?: number): LongView => new LongView(id("long"), seconds);
