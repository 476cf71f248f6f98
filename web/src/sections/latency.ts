// Latency percentiles on HdrHistogram's axis: each step to the right is ten times rarer.

import { axes, figure, legend, line } from "../chart";
import { section, table } from "../dom";
import type { LatencyCurve, ReportData } from "../generated/types";
import { count, short } from "../number";
import { logarithmic, type Scale } from "../scale";
import { t } from "../text";

const TICKS: [quantile: number, name: string][] = [[0.5, "50 %"], [0.9, "90 %"], [0.99, "99 %"], [0.999, "99.9 %"], [0.9999, "99.99 %"], [0.99999, "99.999 %"]];

const rarity = (quantile: number) => -Math.log10(1 - quantile);

export function latency(data: ReportData): HTMLElement | null {
  if (data.latency.length === 0) return null;
  return section(
    "latency",
    t.latency.title,
    t.latency.lead,
    drawn(data.latency),
    table(t.latency.percentiles, [t.latency.of, `>${t.words.requests}`, ">p50", ">p75", ">p90", ">p99", ">p99.9", ">p99.99", `>${t.latency.max}`], data.latency.map((l) => [l.name, count(l.count), ...l.usual])),
  );
}

function drawn(curves: LatencyCurve[]): HTMLElement {
  const label = `${t.latency.percentiles}: ${curves.map((c) => `${c.name}: p50 ${c.usual[0]}, p99 ${c.usual[3]}`).join("; ")}`;
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
    legend(curves.map((c) => [c.kind, c.name])),
  );
}
