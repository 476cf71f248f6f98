// The stack as a path of hops: who calls whom, where the time of a request goes, what is fullest, and which hop is the limit.
// Columns on a wide page, rows on a narrow one.

import { figure, legend } from "../chart";
import { h, s, type Child } from "../dom";
import type { HopView, ReportData, StackNode } from "../generated/types";
import { micros } from "../number";
import { t, told } from "../text";

const BOX = { width: 196, gap: 16 };
/** Heights of a box: its names, and with the time split and the fullest resource below them. */
const HEIGHT = { names: 62, hop: 124 };
/** Room between columns for the arrows. */
const BETWEEN = 44;

interface Place {
  x: number;
  y: number;
  w: number;
}

const clip = (text: string, letters: number) => (text.length > letters ? `${text.slice(0, letters - 1)}\u2026` : text);

const PARTS = ["work", "wait", "upstream"] as const;
type Part = (typeof PARTS)[number];

export function stack(data: ReportData): HTMLElement | null {
  const { nodes, entry, workload, objective } = data.stack;
  if (nodes.length === 0) return null;
  const layers: StackNode[][] = [];
  for (const node of nodes) (layers[node.depth] ??= []).push(node);
  const label = nodes.map((n) => `${n.name}${n.limits ? ` (${t.stack.limit})` : ""}${n.calls.length ? ` ${t.stack.calls} ${n.calls.join(", ")}` : ""}${spoken(n.hop)}`).join("; ");
  const facts = [t.stack.entry(entry), told(workload), objective ? t.stack.objective(told(objective)) : ""].filter(Boolean).join(" \u00b7 ");
  const timed = nodes.some((node) => node.hop && total(node.hop) > 0);
  const keys: [string, string][] = PARTS.map((part) => [`hop-${part}`, t.stack[part]]);
  return h(
    "div",
    { class: "stack" },
    figure(t.stack.label(label), (width) => drawing(layers.filter(Boolean), width), timed ? legend(keys) : null),
    entry ? h("p", { class: "facts" }, facts) : null,
    timed && !nodes.some((node) => node.hop?.timed) ? h("p", { class: "facts" }, t.stack.bySockets) : null,
  );
}

const times = (hop: HopView): Record<Part, number> => ({ work: hop.work_us ?? 0, wait: hop.wait_us ?? 0, upstream: hop.upstream_us ?? 0 });
const total = (hop: HopView): number => PARTS.reduce((sum, part) => sum + times(hop)[part], 0);

function spoken(hop: HopView | null): string {
  if (!hop) return "";
  const split = PARTS.filter((part) => times(hop)[part] > 0).map((part) => `${t.stack[part]} ${micros(times(hop)[part])}`);
  return [...split, hop.busiest ? `${hop.busiest} ${hop.busiest_text}` : ""].filter(Boolean).map((text) => `, ${text}`).join("");
}

function drawing(layers: StackNode[][], width: number): { height: number; parts: Child[] } {
  const nodes = layers.flat();
  const high = nodes.some((node) => node.hop && (total(node.hop) > 0 || node.hop.busiest)) ? HEIGHT.hop : HEIGHT.names;
  const across = layers.length * BOX.width + (layers.length - 1) * BETWEEN <= width;
  const { places, height } = across ? columns(layers, width, high) : rows(layers, width, high);
  const longest = Math.max(...nodes.map((node) => (node.hop ? total(node.hop) : 0)));
  const edges = nodes.flatMap((node) => node.calls.map((callee) => [places.get(node.name), places.get(callee)] as const));
  const parts: Child[] = [
    edges.map(([a, b]) => (a && b ? arrow(a, b, across, high) : null)),
    nodes.map((node) => box(node, places.get(node.name)!, high, longest)),
  ];
  return { height, parts };
}

function columns(layers: StackNode[][], width: number, high: number): { places: Map<string, Place>; height: number } {
  const places = new Map<string, Place>();
  const lane = Math.max(...layers.map((layer) => layer.length)) * (high + BOX.gap);
  const step = layers.length > 1 ? Math.min((width - BOX.width - 4) / (layers.length - 1), BOX.width + 150) : 0;
  layers.forEach((layer, depth) => {
    const top = (lane - layer.length * (high + BOX.gap) + BOX.gap) / 2 + 4;
    layer.forEach((node, i) => places.set(node.name, { x: 2 + depth * step, y: top + i * (high + BOX.gap), w: BOX.width }));
  });
  return { places, height: lane - BOX.gap + 8 };
}

function rows(layers: StackNode[][], width: number, high: number): { places: Map<string, Place>; height: number } {
  const places = new Map<string, Place>();
  const longest = Math.max(...layers.map((layer) => layer.length));
  const perRow = Math.min(longest, Math.max(1, Math.floor((width + BOX.gap) / (150 + BOX.gap))));
  let below = 4;
  for (const layer of layers) {
    const inRow = Math.min(layer.length, perRow);
    const w = Math.min(BOX.width + 40, (width - 4 - (inRow - 1) * BOX.gap) / inRow);
    const left = (width - inRow * w - (inRow - 1) * BOX.gap) / 2;
    layer.forEach((node, i) => places.set(node.name, { x: left + (i % inRow) * (w + BOX.gap), y: below + Math.floor(i / inRow) * (high + BOX.gap), w }));
    below += Math.ceil(layer.length / inRow) * (high + BOX.gap) + 24;
  }
  return { places, height: below - BOX.gap - 16 };
}

function arrow(a: Place, b: Place, across: boolean, high: number): Child {
  const [x1, y1, x2, y2] = across ? [a.x + a.w, a.y + high / 2, b.x - 2, b.y + high / 2] : [a.x + a.w / 2, a.y + high, b.x + b.w / 2, b.y - 2];
  const [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2];
  const d = across ? `M${x1},${y1}C${mx},${y1} ${mx},${y2} ${x2 - 6},${y2}` : `M${x1},${y1}C${x1},${my} ${x2},${my} ${x2},${y2 - 6}`;
  return [s("path", { class: "edge", d }), s("path", { class: "head", d: across ? `M${x2},${y2}l-8,-4v8z` : `M${x2},${y2}l-4,-8h8z` })];
}

function box(node: StackNode, at: Place, high: number, longest: number): SVGElement {
  const letters = Math.floor((at.w - 24) / 6.4);
  const text = (y: number, className: string, words: string) => s("text", { class: className, x: at.x + 14, y: at.y + y }, clip(words, letters), s("title", {}, words));
  return s(
    "g",
    { class: `node${node.limits ? " limits" : ""}${node.observed ? "" : " unseen"}` },
    s("rect", { class: "box", x: at.x, y: at.y, width: at.w, height: high, rx: 8 }),
    text(21, "name", node.limits && letters > node.name.length + 12 ? `${node.name} \u2014 ${t.stack.limit}` : node.name),
    text(38, "role", told(node.role)),
    text(53, "role", node.place),
    node.hop ? hopParts(node.hop, at, longest, letters) : null,
  );
}

/** Below the names: a bar whose length is the time of a request at the hop, and the fullest resource. */
function hopParts(hop: HopView, at: Place, longest: number, letters: number): Child {
  const of = times(hop);
  const room = at.w - 28;
  let x = at.x + 14;
  const bar = PARTS.map((part) => {
    const w = longest > 0 ? (of[part] / longest) * room : 0;
    const rect = w > 0 ? s("rect", { class: `hop-${part}`, x: x.toFixed(1), y: at.y + 64, width: Math.max(w, 1).toFixed(1), height: 9 }, s("title", {}, `${t.stack[part]} ${micros(of[part])}`)) : null;
    x += w;
    return rect;
  });
  const split = PARTS.filter((part) => of[part] > 0).map((part) => micros(of[part])).join(" + ");
  const fullest = hop.busiest ? `${hop.busiest} ${hop.busiest_text}` : "";
  const isFull = (hop.busiest_share ?? 0) >= 0.9;
  return [
    total(hop) > 0 ? [bar, s("text", { class: "split", x: at.x + 14, y: at.y + 89 }, clip(split, letters))] : null,
    fullest ? s("text", { class: `fullest${isFull ? " full" : ""}`, x: at.x + 14, y: at.y + 109 }, clip(fullest, letters), s("title", {}, t.stack.fullest(fullest))) : null,
  ];
}
