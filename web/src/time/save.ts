// Buttons that take a chart over time out of the page: as a picture, as a drawing, as numbers.

import { colour, look } from "../colour";
import { h, s } from "../dom";
import type { ChartView } from "../generated/types";
import { clock, onAxis } from "../number";
import { copy, keep, saveButtons } from "../save";
import { linear, logarithmic } from "../scale";
import { t } from "../text";
import { columns, csv, isJoined, isStacked, logRange, range, summary, type Column } from "./shape";

export function saveChart(chart: ChartView, title: string, canvas: () => HTMLCanvasElement | null): HTMLElement {
  const name = `${chart.host ? `${chart.host}-` : ""}${chart.kind}${chart.item ? `-${chart.item}` : ""}`;
  const png = () => {
    const drawn = canvas();
    return drawn ? copy(framed(drawn, chart, title), name) : "";
  };
  return saveButtons(title, [
    { text: "PNG", hint: t.save.png, act: png },
    { text: "SVG", hint: t.save.svg, act: () => keep(new Blob([svg(chart, title)], { type: "image/svg+xml" }), `${name}.svg`) },
    { text: "CSV", hint: t.save.csv, act: () => keep(new Blob([csv(chart)], { type: "text/csv" }), `${name}.csv`) },
  ]);
}

/** The canvas with its title above and its legend below, on paper. */
function framed(drawn: HTMLCanvasElement, chart: ChartView, title: string): HTMLCanvasElement {
  const scale = window.devicePixelRatio || 1;
  const canvas = h("canvas", { width: drawn.width, height: drawn.height + 52 * scale }) as HTMLCanvasElement;
  const ctx = canvas.getContext("2d")!;
  ctx.fillStyle = colour("paper");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.drawImage(drawn, 0, 26 * scale);
  ctx.fillStyle = colour("ink");
  ctx.font = `600 ${13 * scale}px system-ui, sans-serif`;
  ctx.fillText(headline(chart, title), 8 * scale, 17 * scale);
  ctx.font = `${11 * scale}px system-ui, sans-serif`;
  let x = 8 * scale;
  chart.lines.forEach((line, i) => {
    ctx.fillStyle = colour(look(i, line.name, isStacked(chart)).variable);
    ctx.fillRect(x, canvas.height - 17 * scale, 10 * scale, 10 * scale);
    ctx.fillStyle = colour("muted");
    ctx.fillText(line.name, x + 14 * scale, canvas.height - 8 * scale);
    x += 28 * scale + ctx.measureText(line.name).width;
  });
  return canvas;
}

const headline = (chart: ChartView, title: string): string => `${chart.host ? `${chart.host}: ` : ""}${title}, ${t.units[chart.unit]}`;

const SIZE = { width: 900, height: 300 };

/** A drawing that stands alone: its colours are those of the theme that is shown. */
export function svg(chart: ChartView, title: string): string {
  const { at, columns: drawn } = columns(chart, new Set());
  const frame = { left: 70, right: SIZE.width - 12, top: 34, bottom: SIZE.height - 62 };
  const greatest = Math.max(...chart.lines.flatMap((line) => summary(chart, line)?.greatest ?? []), 0);
  const [low, high] = range(chart, greatest);
  const logs = chart.unit === "us" ? logRange(chart) : null;
  const x = linear(at[0] ?? 0, at[at.length - 1] ?? 1, frame.left, frame.right, 8);
  const y = logs ? logarithmic(logs[0], logs[1], frame.bottom, frame.top) : linear(low, high, frame.bottom, frame.top);
  const [ink, muted, line, paper] = ["ink", "muted", "line", "paper"].map(colour) as [string, string, string, string];
  const text = (x: number, y: number, words: string, anchor: string, fill = muted) => s("text", { x, y, fill, "font-size": 11, "text-anchor": anchor }, words);
  const paths = drawn.map((column, i) => {
    const { variable, dash } = look(i, chart.lines[i]!.name, isStacked(chart));
    const d = path(at, column, x, y, isJoined(chart));
    return s("path", { d, fill: "none", stroke: colour(variable), "stroke-width": 1.5, "stroke-dasharray": dash.join(" ") || null });
  });
  let right = frame.left;
  const keys = chart.lines.map((line, i) => {
    const from = right;
    right += 26 + line.name.length * 6.2;
    return [s("rect", { x: from, y: SIZE.height - 20, width: 10, height: 10, fill: colour(look(i, line.name, isStacked(chart)).variable) }), text(from + 14, SIZE.height - 11, line.name, "start")];
  });
  const drawing = s(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, width: SIZE.width, height: SIZE.height, "font-family": "system-ui, sans-serif" },
    s("rect", { width: SIZE.width, height: SIZE.height, fill: paper }),
    s("text", { x: 12, y: 20, fill: ink, "font-size": 13, "font-weight": 600 }, headline(chart, title)),
    y.ticks.map((tick) => [s("line", { x1: frame.left, x2: frame.right, y1: y(tick), y2: y(tick), stroke: line }), text(frame.left - 8, y(tick) + 4, onAxis(tick, chart.unit), "end")]),
    x.ticks.map((tick) => text(x(tick), frame.bottom + 18, clock(tick), "middle")),
    paths,
    keys,
  );
  return new XMLSerializer().serializeToString(drawing);
}

function path(at: number[], column: Column, x: (v: number) => number, y: (v: number) => number, joined: boolean): string {
  let d = "";
  let pen = "M";
  column.forEach((value, i) => {
    if (value === null) {
      if (!joined) pen = "M";
      return;
    }
    d += `${pen}${x(at[i]!).toFixed(1)},${y(value).toFixed(1)}`;
    pen = "L";
  });
  return d;
}
