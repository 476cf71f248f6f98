// From the charts of the data to what uPlot draws: stacking, ranges, what is under the cursor. Draws nothing itself.

import { csvOf } from "../csv";
import type { ChartUnit, ChartView, LineView } from "../generated/types";

export type Column = (number | null)[];

/** Kinds whose lines stand on each other. */
export const isStacked = (chart: ChartView): boolean => chart.kind === "cpu" || chart.kind === "core";

/** What clients saw was measured in trials only: lines stop between them. Facts of hosts were read all the time, some of
 *  them less often than others of the same chart, so their lines go on. */
export const isJoined = (chart: ChartView): boolean => chart.host !== "";

/** Moments and one column per line that is shown; columns of a stack are sums from the bottom. */
export function columns(chart: ChartView, hidden: ReadonlySet<number>): { at: number[]; shown: number[]; columns: Column[] } {
  const shown = chart.lines.map((_, i) => i).filter((i) => !hidden.has(i));
  const own = shown.map((i) => chart.lines[i]!.values);
  return { at: chart.at_s, shown, columns: isStacked(chart) ? stacked(own) : own };
}

/** Each column with those below it added. */
export function stacked(own: Column[]): Column[] {
  const sums: Column[] = [];
  for (const column of own) {
    const below = sums[sums.length - 1];
    sums.push(below ? column.map((value, i) => (value === null ? null : value + (below[i] ?? 0))) : [...column]);
  }
  return sums;
}

/** The value of a line at a moment, or the last one before it that was read. */
export function valueAt(line: LineView, index: number, joined: boolean): number | null {
  for (let i = index; i >= 0 && (i === index || joined); i--) {
    const value = line.values[i];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

/** Room above the lines: in charts of the load it holds the names of the trials. */
const ABOVE = { load: 1.3, host: 1.08 };

/** From 0 to a little above the greatest value; shares of CPU time always to 1. */
export function range(chart: ChartView, greatest: number): [number, number] {
  if (isStacked(chart) || chart.kind === "cores") return [0, 1];
  return [0, greatest > 0 ? greatest * (chart.host === "" ? ABOVE.load : ABOVE.host) : 1];
}

/** The ends of a logarithmic axis around the values above 0; none without any. */
export function logRange(chart: ChartView): [number, number] | null {
  const known = chart.lines.flatMap((line) => line.values).filter((value): value is number => value !== null && value > 0);
  if (known.length === 0) return null;
  const [least, greatest] = known.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, 0]);
  return [least / 1.3, greatest * (greatest / least) ** 0.2 * 1.3];
}

/** Distances between ticks: bytes go by powers of two. */
export function steps(unit: ChartUnit): number[] | undefined {
  if (unit !== "bytes" && unit !== "bytes_per_s") return undefined;
  return Array.from({ length: 42 }, (_, power) => 2 ** power);
}

/** Least, middle and greatest value of a line, and when the greatest was. */
export function summary(chart: ChartView, line: LineView): { least: number; middle: number; greatest: number; at: number } | null {
  const known = line.values.flatMap((value, i) => (value === null ? [] : [{ value, at: chart.at_s[i] ?? 0 }]));
  if (known.length === 0) return null;
  const byValue = [...known].sort((a, b) => a.value - b.value);
  const last = byValue[byValue.length - 1]!;
  return { least: byValue[0]!.value, middle: byValue[Math.floor((byValue.length - 1) / 2)]!.value, greatest: last.value, at: last.at };
}

/** All moments of a list of charts and bands: every chart shows the same time. */
export function span(charts: ChartView[], ends: number[]): [number, number] {
  const firsts = charts.flatMap((chart) => chart.at_s.slice(0, 1));
  const lasts = charts.flatMap((chart) => chart.at_s.slice(-1));
  return [Math.min(0, ...firsts), Math.max(1, ...lasts, ...ends)];
}

/** A chart as CSV: a line for each moment, an empty field where nothing was read. */
export function csv(chart: ChartView): string {
  const rows = chart.at_s.map((at, i) => [at, ...chart.lines.map((line) => line.values[i] ?? "")].map(String));
  return csvOf([["at_s", ...chart.lines.map((line) => line.name)], ...rows]);
}
