// A chart over time: uPlot draws it; cursor and zoom are those of all charts of the page.
//
// A chart is drawn when it comes near the screen, so that a page with a hundred of them opens at once.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { colour, look } from "../colour";
import { h, table } from "../dom";
import type { ChartView, LineView } from "../generated/types";
import { NONE, clock, inUnit, onAxis, seconds } from "../number";
import { logarithmic } from "../scale";
import { t } from "../text";
import { saveChart } from "./save";
import { columns, isJoined, isStacked, logRange, range, steps, summary, valueAt } from "./shape";
import { Timeline, bandAt, groups } from "./timeline";

export class TimeChart {
  readonly element: HTMLElement;
  private plot: uPlot | null = null;
  private readonly hidden = new Set<number>();
  private readonly holder = h("div", { class: "time-drawing" });
  private readonly values: HTMLElement[] = [];
  private readonly moment = h("span", { class: "moment" });

  constructor(
    private readonly timeline: Timeline,
    readonly chart: ChartView,
    private readonly height: number,
  ) {
    const title = titleOf(chart);
    this.holder.setAttribute("role", "img");
    this.holder.setAttribute("aria-label", title);
    this.holder.setAttribute("tabindex", "0");
    this.holder.style.height = `${height}px`;
    this.element = h(
      "figure",
      { class: "time-chart", "data-kind": chart.kind },
      h("div", { class: "chart-head" }, h("h4", {}, title, " ", h("small", {}, t.units[chart.unit])), this.moment, saveChart(chart, title, () => this.plot?.ctx.canvas ?? null)),
      this.legend(),
      this.holder,
      chart.zero.length > 0 ? h("p", { class: "zero" }, t.series.zero(chart.zero)) : null,
      figures(chart, title),
    );
    this.holder.addEventListener("keydown", (event) => this.key(event));
    timeline.charts.push(this);
    near.set(this.holder, this);
    watcher.observe(this.holder);
    sizes.observe(this.holder);
  }

  /** Draws it, if it has a place. */
  draw(width = this.holder.clientWidth): void {
    if (this.holder.clientWidth === 0) return;
    this.plot?.destroy();
    this.holder.setAttribute("aria-label", spoken(this.chart, titleOf(this.chart)));
    const data = columns(this.chart, this.hidden);
    this.plot = new uPlot(this.options(width, data.shown), [data.at, ...data.columns] as uPlot.AlignedData, this.holder);
  }

  /** What is folded away is drawn when it is seen again. */
  repaint(): void {
    if (!this.plot) return;
    this.plot.destroy();
    this.plot = null;
    this.draw();
  }

  /** Follows the width of its place, once it is drawn. */
  fit(): void {
    const width = this.holder.clientWidth;
    if (this.plot && width > 0 && this.plot.width !== width) this.plot.setSize({ width, height: this.height });
  }

  /** Draws it for the first time. */
  appear(): void {
    if (!this.plot) this.draw();
  }

  showTime(): void {
    const [min, max] = this.timeline.shown;
    this.plot?.setScale("x", { min, max });
  }

  pointAt(at: number | null): void {
    if (!this.plot) return;
    const left = at === null ? -10 : this.plot.valToPos(at, "x");
    this.plot.setCursor({ left, top: at === null ? -10 : 10 }, true);
  }

  private legend(): HTMLElement {
    const stacked = isStacked(this.chart);
    const entries = this.chart.lines.map((line, i) => {
      const { variable, dash } = look(i, line.name, stacked);
      const value = h("span", { class: "value" }, "");
      this.values.push(value);
      const swatch = h("i", { class: `swatch${dash.length > 0 ? " dashed" : ""}` });
      // Not as an attribute: pages of a server allow no style of that kind.
      swatch.style.setProperty("--tint", `var(--${variable})`);
      const button = h("button", { type: "button", "aria-pressed": "true", title: t.series.hide }, swatch, line.name, value);
      button.addEventListener("click", () => this.toggle(i, button));
      return button;
    });
    return h("div", { class: "time-legend" }, entries);
  }

  private toggle(i: number, button: HTMLElement): void {
    if (this.hidden.has(i)) this.hidden.delete(i);
    else this.hidden.add(i);
    button.setAttribute("aria-pressed", String(!this.hidden.has(i)));
    this.draw();
  }

  private key(event: KeyboardEvent): void {
    const [from, to] = this.timeline.shown;
    const length = to - from;
    const at = this.plot && (this.plot.cursor.left ?? -1) >= 0 ? this.plot.posToVal(this.plot.cursor.left!, "x") : (from + to) / 2;
    const move = (by: number) => this.timeline.point(Math.min(to, Math.max(from, at + by)));
    const actions: Record<string, () => void> = {
      ArrowLeft: () => move(-length / 100),
      ArrowRight: () => move(length / 100),
      "+": () => this.timeline.zoom(at - length / 4, at + length / 4),
      "-": () => this.timeline.zoom(at - length, at + length),
      Escape: () => this.timeline.zoom(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  private options(width: number, shown: number[]): uPlot.Options {
    const { chart, timeline } = this;
    const [ink, line] = [colour("muted"), colour("line")];
    const font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
    const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
    const logs = chart.unit === "us" ? logRange(chart) : null;
    const increments = steps(chart.unit);
    return {
      width,
      height: this.height,
      legend: { show: false },
      padding: [8, 8, 0, 0],
      scales: {
        x: { time: false, min: timeline.shown[0], max: timeline.shown[1], auto: false },
        y: logs ? { distr: 3, log: 10, range: () => logs } : { range: (_, __, max) => range(chart, max ?? 0) },
      },
      axes: [
        { ...axis, size: 24, gap: 4, values: (_, ticks) => ticks.map(clock), space: 70 },
        {
          ...axis,
          size: 62,
          gap: 4,
          space: 28,
          values: (_, ticks) => ticks.map((tick) => onAxis(tick, chart.unit)),
          ...(increments ? { incrs: increments } : {}),
          ...(logs ? { splits: () => logarithmic(logs[0], logs[1], 0, 1).ticks, filter: (_: uPlot, ticks: number[]) => ticks } : {}),
        },
      ],
      series: [{}, ...shown.map((i) => this.series(i))],
      bands: isStacked(chart) ? shown.slice(1).map((_, i) => ({ series: [i + 2, i + 1] as [number, number] })) : [],
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { show: !isStacked(chart), size: 6 },
        bind: { dblclick: () => () => (timeline.zoom(), null) },
        dataIdx: (plot, series, index) => nearest(plot.data[series] as (number | null)[] | undefined, index, series > 0 && isJoined(chart)),
      },
      hooks: {
        drawClear: [(plot) => this.shade(plot)],
        drawAxes: [(plot) => this.name(plot)],
        setCursor: [(plot) => this.tell(plot)],
        setSelect: [(plot) => this.selected(plot)],
      },
    };
  }

  private series(i: number): uPlot.Series {
    const line = this.chart.lines[i]!;
    const stacked = isStacked(this.chart);
    const { variable, dash } = look(i, line.name, stacked);
    const stroke = colour(variable);
    return {
      label: line.name,
      stroke,
      width: stacked ? 0.5 : 1.6,
      dash,
      spanGaps: isJoined(this.chart),
      points: { show: false },
      ...(isJoined(this.chart) ? {} : { paths: stretches }),
      ...(stacked ? { fill: stroke } : {}),
    };
  }

  /** Where load was sent. */
  private shade(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const tint = { scored: colour("band"), other: colour("band-faint") };
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const band of this.timeline.bands) {
      const [from, to] = [plot.valToPos(band.from_s, "x", true), plot.valToPos(band.to_s, "x", true)];
      if (to < bbox.left || from > bbox.left + bbox.width) continue;
      ctx.fillStyle = band.kind === "warmup" || band.kind === "inspect" ? tint.other : tint.scored;
      ctx.fillRect(from, bbox.top, Math.max(1, to - from), bbox.height);
    }
    ctx.restore();
  }

  /** What load was sent for, where there is room; neighbours of one kind have one name. Above the grid, below the lines. */
  private name(plot: uPlot): void {
    if (this.chart.host !== "") return;
    const { ctx, bbox } = plot;
    ctx.save();
    const scale = window.devicePixelRatio || 1;
    ctx.font = `${11 * scale}px system-ui, sans-serif`;
    ctx.fillStyle = colour("muted");
    ctx.textAlign = "center";
    for (const group of groups(this.timeline.bands)) {
      const from = Math.max(plot.valToPos(group[0]!.from_s, "x", true), bbox.left);
      const to = Math.min(plot.valToPos(group[group.length - 1]!.to_s, "x", true), bbox.left + bbox.width);
      const name = group.length === 1 ? group[0]!.label : t.bands[group[0]!.kind];
      if (ctx.measureText(name).width + 6 * scale < to - from) ctx.fillText(name, (from + to) / 2, bbox.top + 12 * scale);
    }
    ctx.restore();
  }

  /** Values under the cursor, behind their names. */
  private tell(plot: uPlot): void {
    const index = plot.cursor.idx;
    const at = plot.cursor.left !== undefined && plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : null;
    this.timeline.point(at, this);
    const isSeen = index !== null && index !== undefined && at !== null;
    this.moment.textContent = isSeen ? `${seconds(at)}${bandAt(this.timeline.bands, at)}` : "";
    this.chart.lines.forEach((line, i) => {
      this.values[i]!.textContent = isSeen ? told(line, index, this.chart) : "";
    });
  }

  private selected(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.timeline.zoom(from, to);
  }
}

/** Lines that stop where nothing was measured. uPlot's own leave a stroke at the ends of each gap. */
const stretches: uPlot.Series.PathBuilder = (plot, series, from, to) => {
  const stroke = new Path2D();
  const [at, values] = [plot.data[0], plot.data[series]!];
  let isDown = false;
  for (let i = from; i <= to; i++) {
    const value = values[i];
    if (value === null || value === undefined) {
      // A line of few values, like one a second, lies between others that have more.
      isDown = isDown && plot.data.slice(1).some((other) => typeof other[i] === "number");
      continue;
    }
    const [x, y] = [plot.valToPos(at[i]!, "x", true), plot.valToPos(value, "y", true)];
    if (isDown) stroke.lineTo(x, y);
    else stroke.moveTo(x, y);
    isDown = true;
  }
  return { stroke };
};

const near = new WeakMap<Element, TimeChart>();
const sizes = new ResizeObserver((entries) => entries.forEach((entry) => near.get(entry.target)?.fit()));
const watcher = new IntersectionObserver((entries) => entries.forEach((entry) => entry.isIntersecting && near.get(entry.target)?.appear()), { rootMargin: "600px" });

function nearest(column: (number | null)[] | undefined, index: number, joined: boolean): number {
  if (!column || !joined) return index;
  let i = index;
  while (i > 0 && column[i] === null) i--;
  return i;
}

function told(line: LineView, index: number, chart: ChartView): string {
  const value = valueAt(line, index, isJoined(chart));
  return value === null ? NONE : inUnit(value, chart.unit);
}

export const titleOf = (chart: ChartView): string => (chart.item ? `${t.charts[chart.kind]} ${chart.item}` : t.charts[chart.kind]);

/** What a screen reader says of the drawing. */
function spoken(chart: ChartView, title: string): string {
  const lines = chart.lines.flatMap((line) => {
    const seen = summary(chart, line);
    return seen ? [`${line.name} ${inUnit(seen.least, chart.unit)} \u2013 ${inUnit(seen.greatest, chart.unit)}`] : [];
  });
  return `${chart.host ? `${chart.host}: ` : ""}${title}. ${lines.join("; ")}`;
}

/** The figures behind the drawing, made when they are asked for. */
function figures(chart: ChartView, title: string): HTMLElement {
  const place = h("div", {});
  const details = h("details", { class: "chart-figures" }, h("summary", {}, t.series.figures), place) as HTMLDetailsElement;
  const fill = () => {
    const rows = chart.lines.flatMap((line) => {
      const seen = summary(chart, line);
      return seen ? [[line.name, inUnit(seen.least, chart.unit), inUnit(seen.middle, chart.unit), inUnit(seen.greatest, chart.unit), seconds(seen.at)]] : [];
    });
    place.replaceChildren(table(`${chart.host} ${title}`.trim(), [t.series.line, `>${t.series.least}`, `>${t.series.middle}`, `>${t.series.greatest}`, `>${t.series.greatestAt}`], rows));
  };
  details.addEventListener("toggle", () => details.open && fill(), { once: true });
  return details;
}
