// The chain of evidence: numbered cards, each with the value under load against the calm value and the border.

import { figure } from "../chart";
import { h, s, section, type Child } from "../dom";
import type { EvidenceView, ReportData } from "../generated/types";

export function evidence(data: ReportData): HTMLElement | null {
  if (data.evidence.length === 0) return null;
  const lead = "Each fact as it was read under load, beside what it was at half the load (calm), and the border that it was held against.";
  return section("evidence", "Evidence", lead, h("ol", { class: "cards" }, data.evidence.map(card)));
}

function card(e: EvidenceView, i: number): HTMLElement {
  const side = e.supports ? "for" : "against";
  return h(
    "li",
    { class: `card ${side}` },
    h("div", { class: "claim" }, h("span", { class: "step", "aria-hidden": "true" }, i + 1), h("h3", {}, e.claim)),
    h(
      "p",
      { class: "reading" },
      h("b", {}, e.value_text),
      ` ${e.metric_title}${e.host ? ` at ${e.host}` : ""} `,
      e.metric === e.metric_title ? null : h("code", {}, e.metric),
      e.supports ? null : h("em", {}, " speaks against it"),
    ),
    e.threshold !== null || e.baseline !== null ? bar(e) : null,
    e.threshold !== null && e.origin ? h("p", { class: "origin" }, `Border ${e.threshold_text}: ${e.origin}`) : null,
  );
}

function bar(e: EvidenceView): HTMLElement {
  const marks = [e.baseline_text && `calm ${e.baseline_text}`, e.threshold_text && `border ${e.threshold_text}`].filter(Boolean);
  const label = `${e.metric_title}: ${e.value_text}; ${marks.join(", ")}`;
  return figure(label, (width) => {
    const largest = Math.max(...[e.value, e.baseline, e.threshold].map((v) => Math.abs(v ?? 0)), Number.MIN_VALUE);
    const x = (v: number) => 1 + (Math.abs(v) / largest) * (width - 4) * 0.96;
    const parts: Child[] = [s("rect", { class: "track", x: 0, y: 20, width, height: 12, rx: 3 })];
    if (e.value !== null) {
      parts.push(s("rect", { class: `bar ${e.supports ? "for" : "against"}`, x: 0, y: 20, width: Math.max(2, x(e.value)), height: 12, rx: 3 }));
    }
    if (e.threshold !== null) parts.push(mark(x(e.threshold), 15, 37, "border", `border ${e.threshold_text}`, 11, width));
    if (e.baseline !== null) parts.push(mark(x(e.baseline), 17, 35, "calm", `calm ${e.baseline_text}`, 48, width));
    return { height: 52, parts };
  });
}

function mark(x: number, y1: number, y2: number, className: string, text: string, textY: number, width: number): Child {
  const half = text.length * 3.2;
  return [
    s("line", { class: className, x1: x, x2: x, y1, y2 }),
    s("text", { class: "tick", x: Math.min(Math.max(x, half), width - half), y: textY, "text-anchor": "middle" }, text),
  ];
}
