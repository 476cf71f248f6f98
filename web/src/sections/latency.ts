// Latency percentiles on HdrHistogram's axis: each step to the right is ten times rarer.

import { axes, figure, legend, line, type Frame } from "../chart";
import { h, s, section, table } from "../dom";
import type { HeatColumn, HeatView, LatencyCurve, ReportData } from "../generated/types";
import { count, short } from "../number";
import { linear, logarithmic, type Scale } from "../scale";
import { said, t } from "../text";

const TICKS: [quantile: number, name: string][] = [[0.5, "50 %"], [0.9, "90 %"], [0.99, "99 %"], [0.999, "99.9 %"], [0.9999, "99.99 %"], [0.99999, "99.999 %"]];

const rarity = (quantile: number) => -Math.log10(1 - quantile);

export function latency(data: ReportData): HTMLElement | null {
  const over = data.timeline.heat.columns.length > 1 ? heat(data) : null;
  if (data.latency.length === 0) return over && section("latency", t.latency.title, null, over);
  return section(
    "latency",
    t.latency.title,
    t.latency.lead,
    latencyCurves(data.latency),
    table(t.latency.percentiles, [t.latency.of, `>${t.words.requests}`, ">p50", ">p75", ">p90", ">p99", ">p99.9", ">p99.99", `>${t.latency.max}`], data.latency.map((l) => [said(l.name), count(l.count), ...l.usual])),
    over,
  );
}

/** Latency over time: a column for each trial, darker where more of its answers lie. */
function heat(data: ReportData): HTMLElement {
  const { edges_us, columns } = data.timeline.heat;
  const labels = new Map(data.timeline.bands.map((band) => [band.trial, band.label]));
  const first = columns[0]!;
  const last = columns[columns.length - 1]!;
  const said = (column: HeatColumn) => `${labels.get(column.trial) ?? ""}: p50 ${short(column.p50_us, "micros")}, p99 ${short(column.p99_us, "micros")}`;
  const drawing = figure(
    `${t.latency.heat}: ${t.latency.heatLead}`,
    (width) => {
      const frame: Frame = { left: 62, right: width - 22, top: 28, bottom: 250 };
      const x = linear(first.from_s, last.to_s, frame.left, frame.right, width < 420 ? 4 : 8);
      const y = logarithmic(edges_us[0]!, edges_us[edges_us.length - 1]!, frame.bottom, frame.top);
      const column = (c: HeatColumn) => {
        const left = x(c.from_s);
        const wide = Math.max(1, x(c.to_s) - left);
        return s("g", { class: "heat" }, s("title", {}, said(c)), cells(c, edges_us, y, left, wide), mark(c, y, left, wide));
      };
      const axis = axes(frame, x, y, (v) => `${count(v)} s`, (v) => short(v, "micros"), { x: t.latency.sinceStart, y: t.words.latency });
      return { height: frame.bottom + 42, parts: [axis, columns.map(column)] };
    },
    legend([["heat", t.latency.answers], ["p99", "p99"]]),
  );
  return h("div", {}, h("h3", { class: "part" }, t.latency.heat), h("p", { class: "lead" }, t.latency.heatLead), drawing);
}

/** The classes of a column that have answers. The root makes a tail of few answers visible. */
function cells(column: HeatColumn, edges_us: HeatView["edges_us"], y: Scale, left: number, wide: number): SVGElement[] {
  return column.shares.flatMap((share, i) => {
    if (share === 0) return [];
    const top = y(edges_us[i + 1]!);
    const shape = { x: left.toFixed(1), y: top.toFixed(1), width: wide.toFixed(1), height: (y(edges_us[i]!) - top).toFixed(1) };
    return [s("rect", { ...shape, "fill-opacity": Math.max(0.08, Math.sqrt(share)).toFixed(2) })];
  });
}

const mark = (column: HeatColumn, y: Scale, left: number, wide: number) =>
  s("line", { class: "heat-mark", x1: left.toFixed(1), x2: (left + wide).toFixed(1), y1: y(column.p99_us).toFixed(1), y2: y(column.p99_us).toFixed(1) });

/** Distributions in one drawing; the kind of each is its class. */
export function latencyCurves(curves: LatencyCurve[]): HTMLElement {
  const label = `${t.latency.percentiles}: ${curves.map((c) => `${said(c.name)}: p50 ${c.usual[0]}, p99 ${c.usual[3]}`).join("; ")}`;
  return figure(
    label,
    (width) => {
      const frame = { left: 62, right: width - 22, top: 28, bottom: 250 };
      const points = curves.flatMap((c) => c.points);
      const rarest = Math.max(1, ...points.map((p) => rarity(p.quantile)));
      const place = (quantile: number) => frame.left + (rarity(quantile) / rarest) * (frame.right - frame.left);
      const ticks = TICKS.map(([quantile]) => quantile).filter((q) => rarity(q) <= rarest + 0.01);
      const x: Scale = Object.assign(place, { ticks: width < 420 ? ticks.filter((_, i) => i !== 1) : ticks, domain: [0, 1] as [number, number] });
      const us = points.map((p) => p.latency_us).filter((v) => v > 0);
      const y = logarithmic(Math.min(...us), Math.max(...us), frame.bottom, frame.top);
      const name = (quantile: number) => TICKS.find(([q]) => q === quantile)?.[1] ?? "";
      const parts = [
        axes(frame, x, y, name, (v) => short(v, "micros"), { x: t.latency.share, y: t.words.latency }),
        // The operating point lies on A when all is well; dotted and on top it stays visible.
        [...curves].reverse().map((c) => line(c.points.filter((p) => p.latency_us > 0).map((p) => [place(p.quantile), y(p.latency_us)]), `line ${c.kind}`)),
      ];
      return { height: frame.bottom + 42, parts };
    },
    legend(curves.map((c) => [c.kind, said(c.name)])),
  );
}
