// The way from the symptom to the cause, step by step: each opens to what was looked at, what it said, the value against the
// calm one and the border, and what it ruled out. Runs without a recorded walk show their evidence alone.

import { inline } from "../chart";
import { h, s, section, type Child } from "../dom";
import type { EvidenceView, ReportData, WalkView } from "../generated/types";
import { overTime } from "../over_time";
import { said, t, told } from "../text";

/** Open from the start: where the time goes is the step that people ask for first. */
const OPEN = ["time split"];

/** Facts that are steps of their own; a profile adds a dozen more, which are folded together. A guess. */
const FACTS_MAX = 5;

export function walk(data: ReportData): HTMLElement | null {
  if (data.walk.length === 0 && data.evidence.length === 0) return null;
  const before = data.walk.filter((step) => step.step !== "cause").map((step) => recorded(step));
  const first = data.walk.length === 0;
  const facts = data.evidence.slice(0, FACTS_MAX).map((e, i) => fact(data, e, first && i === 0));
  const others = data.evidence.slice(FACTS_MAX);
  const cause = data.walk.filter((step) => step.step === "cause").map((step) => recorded(step));
  const lead = data.walk.length > 0 ? t.walk.lead : t.walk.leadFacts;
  return section("walk", t.walk.title, lead, h("ol", { class: "chain" }, before, facts, others.length > 0 ? more(others) : null, cause));
}

function recorded(walk: WalkView): HTMLElement {
  const ruledOut = walk.ruled_out.length;
  return h(
    "li",
    { class: "recorded" },
    h(
      "details",
      OPEN.includes(walk.step) ? { open: "" } : {},
      h("summary", {}, h("b", {}, said(walk.title)), h("span", {}, told(walk.said[0] ?? "")), ruledOut > 0 ? h("small", {}, t.walk.ruledOut(ruledOut)) : null),
      h("p", { class: "looked" }, t.walk.lookedAt(told(walk.looked_at))),
      h("ul", {}, walk.said.map((line) => h("li", {}, told(line)))),
      ruledOut > 0 ? h("p", { class: "codes" }, t.walk.ruledOutThese, " ", walk.ruled_out.map((id) => h("code", {}, id))) : null,
    ),
  );
}

function more(facts: EvidenceView[]): HTMLElement {
  const line = (e: EvidenceView) => h("li", { class: `card ${e.supports ? "for" : "against"}` }, `${told(e.claim)}${named(e)}: `, h("b", {}, e.value_text), compared(e));
  return h("li", {}, h("details", {}, h("summary", {}, h("b", {}, t.walk.more(facts.length)), h("span", {}, "")), h("ul", { class: "looked" }, facts.map(line))));
}

/** What a claim says of `this function` is in its metric, behind the colon. */
const named = (e: EvidenceView): string => {
  const [, item] = e.metric.split(": ");
  return item ? ` (${item})` : "";
};

function fact(data: ReportData, e: EvidenceView, isOpen: boolean): HTMLElement {
  return h(
    "li",
    { class: `card ${e.supports ? "for" : "against"}` },
    h(
      "details",
      isOpen ? { open: "" } : {},
      h("summary", {}, h("b", {}, told(e.claim), named(e)), h("span", {}, h("b", { class: "value" }, e.value_text), compared(e)), e.supports ? null : h("small", {}, t.walk.against)),
      h("p", { class: "looked" }, `${said(e.metric_title)}${e.host ? t.walk.at(e.host) : ""} `, e.metric === e.metric_title ? null : h("code", {}, e.metric)),
      e.threshold !== null || e.baseline !== null ? bar(e) : null,
      e.threshold !== null && e.origin ? h("p", { class: "origin" }, t.walk.origin(e.threshold_text ?? "", e.origin)) : null,
      overTime(data, e.host, e.metric),
    ),
  );
}

const compared = (e: EvidenceView): string =>
  [e.baseline_text && `${t.walk.calm} ${e.baseline_text}`, e.threshold_text && `${t.walk.border} ${e.threshold_text}`].filter(Boolean).map((text) => ` \u00b7 ${text}`).join("");

function bar(e: EvidenceView): HTMLElement {
  const label = `${said(e.metric_title)}: ${e.value_text}${compared(e)}`;
  return inline(label, (width) => {
    const largest = Math.max(...[e.value, e.baseline, e.threshold].map((v) => Math.abs(v ?? 0)), Number.MIN_VALUE);
    const x = (v: number) => 1 + (Math.abs(v) / largest) * (width - 4) * 0.96;
    const parts: Child[] = [s("rect", { class: "track", x: 0, y: 20, width, height: 12, rx: 3 })];
    if (e.value !== null) {
      parts.push(s("rect", { class: `bar ${e.supports ? "for" : "against"}`, x: 0, y: 20, width: Math.max(2, x(e.value)), height: 12, rx: 3 }));
    }
    if (e.threshold !== null) parts.push(mark(x(e.threshold), 15, 37, "border", `${t.walk.border} ${e.threshold_text}`, 11, width));
    if (e.baseline !== null) parts.push(mark(x(e.baseline), 17, 35, "calm", `${t.walk.calm} ${e.baseline_text}`, 48, width));
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
