import { expect, test } from "vitest";
import type { ChartView } from "../generated/types";
import { columns, csv, isStacked, logRange, range, span, stacked, steps, summary, valueAt } from "./shape";

function chart(part: Partial<ChartView>): ChartView {
  return { kind: "packets", host: "lb", item: "", unit: "per_s", at_s: [], lines: [], zero: [], ...part };
}

const cpu = chart({
  kind: "cpu",
  unit: "share",
  at_s: [1, 2, 3],
  lines: [
    { name: "user", values: [0.1, 0.2, null] },
    { name: "system", values: [0.3, 0.3, 0.3] },
    { name: "softirq", values: [0.2, 0.1, 0.4] },
  ],
});

test("shares stand on each other, and a hidden one makes room", () => {
  const close = (column: (number | null)[] | undefined) => column?.map((value) => (value === null ? null : Number(value.toFixed(6))));
  const all = columns(cpu, new Set());
  expect(all.columns.map(close)).toEqual([
    [0.1, 0.2, null],
    [0.4, 0.5, 0.3],
    [0.6, 0.6, 0.7],
  ]);
  const without = columns(cpu, new Set([1]));
  expect(without.shown).toEqual([0, 2]);
  expect(close(without.columns[1])).toEqual([0.3, 0.3, 0.4]);
});

test("stacking leaves the data as it is", () => {
  const own = [[1], [2]];
  expect(stacked(own)).toEqual([[1], [3]]);
  expect(own).toEqual([[1], [2]]);
});

test("lines have one value for each moment", () => {
  const { at, columns: drawn } = columns(cpu, new Set());
  for (const column of drawn) expect(column).toHaveLength(at.length);
});

test("a fact that is read less often keeps its value until it is read again; a trial's does not", () => {
  const line = { name: "threads", values: [4, null, null, 6] };
  expect([valueAt(line, 2, true), valueAt(line, 3, true), valueAt(line, 1, false)]).toEqual([4, 6, null]);
  expect(valueAt({ name: "late", values: [null, 1] }, 0, true)).toBe(null);
});

test("axes begin at 0, and shares of CPU time end at 1", () => {
  expect(range(cpu, 0.6)).toEqual([0, 1]);
  expect(range(chart({}), 100)).toEqual([0, 108]);
  expect(range(chart({ host: "" }), 100)).toEqual([0, 130]);
  expect(range(chart({}), 0)).toEqual([0, 1]);
});

test("a logarithmic axis lies around the values above 0", () => {
  const latency = chart({ kind: "latency", unit: "us", host: "", lines: [{ name: "p50", values: [0, 100, null, 10_000] }] });
  const [low, high] = logRange(latency)!;
  expect(low).toBeLessThan(100);
  expect(high).toBeGreaterThan(10_000);
  expect(logRange(chart({ lines: [{ name: "p50", values: [null, 0] }] }))).toBe(null);
});

test("bytes go by powers of two, other units by uPlot's own steps", () => {
  expect(steps("bytes_per_s")).toContain(1_048_576);
  expect(steps("per_s")).toBeUndefined();
});

test("the summary has the least, the middle and the greatest value", () => {
  const seen = chart({ at_s: [1, 2, 3, 4], lines: [{ name: "sent", values: [5, null, 1, 9] }] });
  expect(summary(seen, seen.lines[0]!)).toEqual({ least: 1, middle: 5, greatest: 9, at: 4 });
  expect(summary(seen, { name: "nothing", values: [null] })).toBe(null);
});

test("all charts show the same time", () => {
  expect(span([cpu, chart({ at_s: [0.5, 90] })], [81])).toEqual([0, 90]);
  expect(span([], [])).toEqual([0, 1]);
});

test("a chart as CSV has an empty field where nothing was read", () => {
  const seen = chart({ at_s: [1, 2.5], lines: [{ name: 'received "eth0", all', values: [7, null] }] });
  expect(csv(seen)).toBe('at_s,"received ""eth0"", all"\n1,7\n2.5,\n');
  expect(isStacked(seen)).toBe(false);
});
