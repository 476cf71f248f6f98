// The stack as a drawing: who calls whom, and which hop holds it back. Columns on a wide page, rows on a narrow one.

import { figure } from "../chart";
import { h, s, type Child } from "../dom";
import type { ReportData, StackNode } from "../generated/types";

const BOX = { width: 168, height: 62, gap: 16 };

const clip = (text: string, letters: number) => (text.length > letters ? `${text.slice(0, letters - 1)}\u2026` : text);

export function stack(data: ReportData): HTMLElement | null {
  const { nodes, entry, workload, objective } = data.stack;
  if (nodes.length === 0) return null;
  const layers: StackNode[][] = [];
  for (const node of nodes) (layers[node.depth] ??= []).push(node);
  const label = nodes.map((n) => `${n.name}${n.limits ? " (the limit)" : ""}${n.calls.length ? ` calls ${n.calls.join(", ")}` : ""}`).join("; ");
  const facts = [`entry ${entry}`, workload, objective ? `objective: ${objective}` : ""].filter(Boolean).join(" \u00b7 ");
  return h("div", { class: "stack" }, figure(`The stack: ${label}`, (width) => drawing(layers.filter(Boolean), width)), entry ? h("p", { class: "facts" }, facts) : null);
}

function drawing(layers: StackNode[][], width: number): { height: number; parts: Child[] } {
  const across = layers.length * BOX.width + (layers.length - 1) * 44 <= width;
  const longest = Math.max(...layers.map((layer) => layer.length));
  const place = new Map<string, { x: number; y: number; w: number }>();
  const lane = longest * (BOX.height + BOX.gap);
  const perRow = Math.min(longest, Math.max(1, Math.floor((width + BOX.gap) / (110 + BOX.gap))));
  let below = 4;
  layers.forEach((layer, depth) => {
    if (across) {
      const step = layers.length > 1 ? Math.min((width - BOX.width - 4) / (layers.length - 1), BOX.width + 130) : 0;
      const top = (lane - layer.length * (BOX.height + BOX.gap) + BOX.gap) / 2 + 4;
      layer.forEach((node, i) => place.set(node.name, { x: 2 + depth * step, y: top + i * (BOX.height + BOX.gap), w: BOX.width }));
      return;
    }
    const columns = Math.min(layer.length, perRow);
    const w = Math.min(BOX.width + 40, (width - 4 - (columns - 1) * BOX.gap) / columns);
    const left = (width - columns * w - (columns - 1) * BOX.gap) / 2;
    layer.forEach((node, i) =>
      place.set(node.name, { x: left + (i % columns) * (w + BOX.gap), y: below + Math.floor(i / columns) * (BOX.height + BOX.gap), w }),
    );
    below += Math.ceil(layer.length / columns) * (BOX.height + BOX.gap) + 24;
  });
  const nodes = layers.flat();
  const edges = nodes.flatMap((node) => node.calls.map((callee) => [place.get(node.name), place.get(callee)] as const));
  const parts: Child[] = [
    edges.map(([a, b]) => {
      if (!a || !b) return null;
      const [x1, y1, x2, y2] = across
        ? [a.x + a.w, a.y + BOX.height / 2, b.x - 2, b.y + BOX.height / 2]
        : [a.x + a.w / 2, a.y + BOX.height, b.x + b.w / 2, b.y - 2];
      const [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2];
      const d = across ? `M${x1},${y1}C${mx},${y1} ${mx},${y2} ${x2 - 6},${y2}` : `M${x1},${y1}C${x1},${my} ${x2},${my} ${x2},${y2 - 6}`;
      const head = across ? `M${x2},${y2}l-8,-4v8z` : `M${x2},${y2}l-4,-8h8z`;
      return [s("path", { class: "edge", d }), s("path", { class: "head", d: head })];
    }),
    nodes.map((node) => box(node, place.get(node.name)!)),
  ];
  return { height: (across ? lane - BOX.gap : below - BOX.gap - 24) + 8, parts };
}

function box(node: StackNode, at: { x: number; y: number; w: number }): SVGElement {
  const letters = Math.floor((at.w - 24) / 6.4);
  const text = (y: number, className: string, words: string) =>
    s("text", { class: className, x: at.x + 14, y: at.y + y }, clip(words, letters), s("title", {}, words));
  return s(
    "g",
    { class: `node${node.limits ? " limits" : ""}${node.observed ? "" : " unseen"}` },
    s("rect", { x: at.x, y: at.y, width: at.w, height: BOX.height, rx: 8 }),
    text(21, "name", node.limits && letters > node.name.length + 12 ? `${node.name} \u2014 the limit` : node.name),
    text(38, "role", node.role),
    text(53, "role", node.place),
  );
}
