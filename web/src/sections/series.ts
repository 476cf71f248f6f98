// The run over time: what clients asked and saw, then host by host, the hop of the verdict open and the others folded.

import { PAPER_WIDTH } from "../chart";
import { forgetColours } from "../colour";
import { h, section } from "../dom";
import type { ChartView, ReportData } from "../generated/types";
import { clock } from "../number";
import { t } from "../text";
import { TimeChart } from "../time/chart";
import { span } from "../time/shape";
import { Timeline } from "../time/timeline";

/** The charts of the page. */
let timeline: Timeline | null = null;

/** Draws again what takes its colours when it is drawn. */
export function repaintSeries(): void {
  forgetColours();
  timeline?.repaint();
}

/** Draws all of it for paper. */
export function printSeries(): void {
  forgetColours();
  timeline?.print(PAPER_WIDTH);
}

const HEIGHT = { wide: 190, narrow: 150 };

export function series(data: ReportData): HTMLElement | null {
  const { charts, bands } = data.timeline;
  timeline = null;
  if (charts.length === 0) return null;
  const shown = h("span", { class: "range", role: "status" });
  const shared = new Timeline(span(charts, bands.map((band) => band.to_s)), bands, (range) => {
    shown.textContent = range ? t.series.shown(clock(range[0]), clock(range[1])) : "";
    back.hidden = range === null;
  });
  timeline = shared;
  const back = h("button", { type: "button", class: "plain", hidden: "" }, t.series.all);
  back.addEventListener("click", () => shared.zoom());
  const load = charts.filter((chart) => chart.host === "");
  const hosts = [...new Set(charts.map((chart) => chart.host).filter(Boolean))];
  return section(
    "series",
    t.series.title,
    t.series.lead,
    h("div", { class: "time-tools" }, h("small", {}, t.series.keys), back, shown),
    load.length > 0 ? h("div", { class: "time-charts" }, load.map((chart) => wide(shared, chart))) : null,
    hosts.map((host, i) => hostCharts(shared, host, charts.filter((chart) => chart.host === host), i === 0, data)),
  );
}

const wide = (shared: Timeline, chart: ChartView) => new TimeChart(shared, chart, HEIGHT.wide).element;
const narrow = (shared: Timeline, chart: ChartView) => new TimeChart(shared, chart, HEIGHT.narrow).element;

/** The charts of a host are made when it is opened, so that a page of many hosts opens at once. */
function hostCharts(shared: Timeline, host: string, charts: ChartView[], isOpen: boolean, data: ReportData): HTMLElement {
  const limits = data.stack.nodes.some((node) => node.name === host && node.limits);
  const summary = h("summary", {}, host, limits ? h("small", {}, ` ${t.series.limit}`) : null);
  const details = h("details", { class: "time-host", "data-host": host, ...(isOpen ? { open: "" } : {}) }, summary) as HTMLDetailsElement;
  if (isOpen) details.append(...parts(shared, charts));
  else details.addEventListener("toggle", () => details.append(...parts(shared, charts)), { once: true });
  return details;
}

function parts(shared: Timeline, charts: ChartView[]): HTMLElement[] {
  const cores = charts.filter((chart) => chart.kind === "core");
  const drawn = charts.filter((chart) => chart.lines.length > 0 && chart.kind !== "core" && chart.kind !== "cpu");
  const still = charts.filter((chart) => chart.lines.length === 0).flatMap((chart) => chart.zero);
  const out = [h("div", { class: "time-charts" }, charts.filter((chart) => chart.kind === "cpu").map((chart) => wide(shared, chart)))];
  if (cores.length > 0) {
    out.push(h("details", {}, h("summary", {}, t.series.cores(cores.length)), h("div", { class: "time-charts two" }, cores.map((chart) => narrow(shared, chart)))));
  }
  out.push(h("div", { class: "time-charts two" }, drawn.map((chart) => narrow(shared, chart))));
  if (still.length > 0) out.push(h("p", { class: "zero" }, t.series.zero(still)));
  return out;
}
