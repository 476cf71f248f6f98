// Drawings that fit their place: each is drawn for the width that it has, again when that changes, and once for paper.
// Colours come from the style sheet by class, so that light, dark and print need no second drawing.

import { h, s, type Child } from "./dom";
import { saveDrawing } from "./save";
import { linear, type Scale } from "./scale";

/** Width of the text block on A4 with the margins of the style sheet, in CSS pixels. */
export const PAPER_WIDTH = 680;

interface Drawing {
  holder: HTMLElement;
  draw: (width: number) => SVGElement;
}
const drawings: Drawing[] = [];

/** A figure whose drawing is made by `draw` for a width; it returns the height and the parts. */
export function figure(label: string, draw: (width: number) => { height: number; parts: Child[] }, legend?: Child): HTMLElement {
  const holder = drawing(label, draw);
  const [title = label] = label.split(":");
  const name = () => holder.closest("section")?.id ?? "stack";
  return h("figure", { class: "drawn" }, h("div", { class: "drawn-head" }, legend ?? null, saveDrawing(title, () => holder.querySelector("svg"), name)), holder);
}

/** A drawing that stands inside a text: no legend, and nothing that is worth taking along. */
export const inline = (label: string, draw: (width: number) => { height: number; parts: Child[] }): HTMLElement => h("figure", {}, drawing(label, draw));

function drawing(label: string, draw: (width: number) => { height: number; parts: Child[] }): HTMLElement {
  const holder = h("div", { class: "drawing" });
  drawings.push({
    holder,
    draw: (width) => {
      const { height, parts } = draw(width);
      return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, s("title", {}, label), parts);
    },
  });
  return holder;
}

function drawAt(drawing: Drawing, width: number): void {
  drawing.holder.replaceChildren(drawing.draw(Math.max(260, Math.round(width))));
}

/** Widths that drawings were made for. */
let widths = new WeakMap<Element, number>();
const observer = new ResizeObserver(() => drawings.forEach(fit));

function fit(drawing: Drawing): void {
  const width = drawing.holder.clientWidth || PAPER_WIDTH;
  if (widths.get(drawing.holder) === width) return;
  widths.set(drawing.holder, width);
  drawAt(drawing, width);
}

/** Forgets the drawings of a page that is about to be made anew. */
export function startDrawings(): void {
  observer.disconnect();
  drawings.length = 0;
}

/** Puts an element in the place of another, with the drawings in it; the others stay as they are. */
export function replaceDrawn(old: Element, fresh: Element): void {
  for (let i = drawings.length - 1; i >= 0; i--) {
    const { holder } = drawings[i]!;
    if (!old.contains(holder)) continue;
    observer.unobserve(holder);
    drawings.splice(i, 1);
  }
  old.replaceWith(fresh);
  drawAll();
}

/** Draws everything, and keeps it fitting. Called when the page stands. */
export function drawAll(): void {
  drawings.forEach(fit);
  drawings.forEach((drawing) => observer.observe(drawing.holder));
}

window.addEventListener("beforeprint", () => {
  observer.disconnect();
  drawings.forEach((drawing) => drawAt(drawing, PAPER_WIDTH));
});
window.addEventListener("afterprint", () => {
  widths = new WeakMap();
  drawings.forEach((drawing) => observer.observe(drawing.holder));
});

export interface Frame {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** Grid lines, tick labels and axis titles. */
export function axes(frame: Frame, x: Scale, y: Scale, xText: (v: number) => string, yText: (v: number) => string, titles: { x: string; y: string }): Child[] {
  return [
    y.ticks.map((tick) => [
      s("line", { class: "grid", x1: frame.left, x2: frame.right, y1: y(tick), y2: y(tick) }),
      s("text", { class: "tick", x: frame.left - 8, y: y(tick) + 4, "text-anchor": "end" }, yText(tick)),
    ]),
    x.ticks.map((tick) => [
      s("line", { class: "grid", x1: x(tick), x2: x(tick), y1: frame.top, y2: frame.bottom }),
      s("text", { class: "tick", x: x(tick), y: frame.bottom + 18, "text-anchor": "middle" }, xText(tick)),
    ]),
    s("text", { class: "axis", x: frame.right, y: frame.bottom + 36, "text-anchor": "end" }, titles.x),
    s("text", { class: "axis", x: 0, y: 12 }, titles.y),
  ];
}

/** A path through points. */
export function line(points: [number, number][], className: string): SVGElement {
  const d = points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
  return s("path", { class: className, d });
}

/** A legend: swatches with names. */
export function legend(entries: [className: string, name: string][]): HTMLElement {
  return h("div", { class: "legend" }, entries.map(([className, name]) => h("span", {}, h("i", { class: `swatch ${className}` }), name)));
}

export interface IntervalRow {
  label: string;
  text: string;
  className: string;
  value: number | null;
  low: number | null;
  high: number | null;
  /** A prediction, drawn as a diamond. */
  predicted?: number | null;
  /** Border that the interval should stay on the left of. */
  margin?: number | null;
}

/** One row per effect: a dot with its 95 % interval on a common axis, with marks such as "no change". */
export function intervals(label: string, rows: IntervalRow[], marks: [value: number, text: string][], tickText: (v: number) => string): HTMLElement {
  const known = rows.flatMap((r) => [r.value, r.low, r.high, r.predicted, r.margin]).filter((v): v is number => typeof v === "number");
  const values = [...known, ...marks.map(([value]) => value)];
  const low = Math.min(...values);
  const high = Math.max(...values);
  const pad = (high - low || 1) * 0.06;
  return figure(label, (width) => {
    const rowHeight = 50;
    const top = 22;
    const bottom = top + rows.length * rowHeight;
    const x = linear(low - pad, high + pad, 8, width - 8, width < 480 ? 3 : 6);
    const parts: Child[] = [
      x.ticks.map((tick) => [
        s("line", { class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: bottom }),
        s("text", { class: "tick", x: Math.min(Math.max(x(tick), 18), width - 20), y: bottom + 17, "text-anchor": "middle" }, tickText(tick)),
      ]),
      marks.map(([value, text]) => [
        s("line", { class: "mark", x1: x(value), x2: x(value), y1: top - 4, y2: bottom }),
        s("text", { class: "axis", x: Math.min(Math.max(x(value), 34), width - 48), y: top - 9, "text-anchor": "middle" }, text),
      ]),
    ];
    rows.forEach((row, i) => {
      const y = top + i * rowHeight + 35;
      const room = Math.floor((width - row.text.length * 7.2) / 6.8) - 2;
      const name = row.label.length > room ? `${row.label.slice(0, Math.max(4, room - 1))}\u2026` : row.label;
      parts.push(
        s("text", { class: "row", x: 2, y: y - 16 }, name, name === row.label ? null : s("title", {}, row.label)),
        s("text", { class: "row value", x: width - 2, y: y - 16, "text-anchor": "end" }, row.text),
      );
      if (typeof row.margin === "number") {
        parts.push(s("line", { class: "margin", x1: x(row.margin), x2: x(row.margin), y1: y - 9, y2: y + 9 }, s("title", {}, `margin ${tickText(row.margin)}`)));
      }
      if (row.low !== null && row.high !== null) {
        parts.push(s("line", { class: `interval ${row.className}`, x1: x(row.low), x2: Math.max(x(row.high), x(row.low) + 1), y1: y, y2: y }));
      }
      if (row.value !== null) parts.push(s("circle", { class: `dot ${row.className}`, cx: x(row.value), cy: y, r: 5 }));
      if (typeof row.predicted === "number") {
        const px = x(row.predicted);
        parts.push(s("path", { class: "predicted", d: `M${px},${y - 8}l7,8l-7,8l-7,-8z` }, s("title", {}, `predicted ${tickText(row.predicted)}`)));
      }
    });
    return { height: bottom + 26, parts };
  });
}
