// Before and after: every trial in the order it ran, then each effect with its 95 % interval.

import { figure, intervals, legend, linear, type IntervalRow } from "../chart";
import { h, s, section, table, type Child } from "../dom";
import type { EffectView, ProofView, ReportData } from "../generated/types";
import { percent, rate, short } from "../number";

export function proof(data: ReportData): HTMLElement | null {
  const p = data.proof;
  if (!p) return null;
  const lead = p.change
    ? ["A is the stack as found, B with ", h("code", {}, p.change), ". Trials alternate in randomised blocks, so that a drift of the machine meets both."]
    : "An A/A run: both arms are the same, so no difference may show.";
  return section(
    "proof",
    "Before and after",
    lead,
    p.summary ? h("p", { class: `note ${p.tone}` }, h("b", {}, `${p.verdict_title.charAt(0).toUpperCase()}${p.verdict_title.slice(1)}. `), p.summary) : null,
    p.trials.length > 0 ? trials(p) : null,
    effects(p),
    h("p", { class: "facts" }, facts(p)),
    p.worth ? h("p", { class: "facts" }, h("span", { class: `word ${p.worth_tone}` }, p.worth)) : null,
    table(
      "Effects of B against A",
      ["Metric", ">A", ">B", ">Effect (95 % interval)", ">Margin", "Verdict"],
      [p.effect, ...p.guards].map((e) => [e.title, e.a_text, e.b_text, e.text, e.margin === null ? "" : percent(e.margin), h("span", { class: `word ${e.tone}` }, e.state || p.verdict_title)]),
    ),
  );
}

function facts(p: ProofView): string {
  const parts = [`${p.effect.pairs} pairs, order by seed ${p.seed}`];
  if (p.effect.detectable !== null) parts.push(`smallest effect that would have been found: ${percent(p.effect.detectable)}`);
  if (p.effect.p !== null) parts.push(`sign permutation test: p = ${p.effect.p.toPrecision(2)}`);
  if (p.prediction) parts.push(p.prediction);
  return parts.join(" \u00b7 ");
}

function trials(p: ProofView): HTMLElement {
  const known = p.trials.map((t) => t.good_per_s ?? 0);
  const keys = legend([["a", "A, as found"], ["b", "B, with the change"]]);
  const mean = (arm: string) => {
    const values = p.trials.filter((t) => t.arm === arm && (t.good_per_s ?? 0) > 0).map((t) => Math.log(t.good_per_s!));
    return values.length ? Math.exp(values.reduce((sum, v) => sum + v, 0) / values.length) : null;
  };
  return figure(
    `Good requests per second of ${p.trials.length} trials in the order they ran. Geometric mean of A ${rate(mean("A"))}, of B ${rate(mean("B"))}.`,
    (width) => {
      const frame = { left: 46, right: width - 70, top: 28, bottom: 190 };
      const y = linear(0, Math.max(...known), frame.bottom, frame.top, 5);
      const step = (frame.right - frame.left) / p.trials.length;
      const parts: Child[] = [
        y.ticks.map((tick) => [
          s("line", { class: "grid", x1: frame.left, x2: frame.right, y1: y(tick), y2: y(tick) }),
          s("text", { class: "tick", x: frame.left - 8, y: y(tick) + 4, "text-anchor": "end" }, short(tick, "rate")),
        ]),
        s("text", { class: "axis", x: 0, y: 12 }, "good requests per second"),
        s("text", { class: "axis", x: frame.right, y: frame.bottom + 20, "text-anchor": "end" }, "trials in the order they ran"),
        (["A", "B"] as const).map((arm) => {
          const m = mean(arm);
          return m === null
            ? null
            : [
                s("line", { class: `mean ${arm.toLowerCase()}`, x1: frame.left, x2: frame.right, y1: y(m), y2: y(m) }),
                s("text", { class: "row value", x: frame.right + 8, y: y(m) + 4 }, `${arm} ${rate(m)}`),
              ];
        }),
        p.trials.map((t, i) =>
          t.good_per_s === null
            ? null
            : s("circle", { class: `dot ${t.arm.toLowerCase()}`, cx: frame.left + (i + 0.5) * step, cy: y(t.good_per_s), r: 4.5 }, s("title", {}, `trial ${i + 1}, ${t.arm}: ${rate(t.good_per_s)}/s`)),
        ),
      ];
      return { height: frame.bottom + 28, parts };
    },
    keys,
  );
}

function effects(p: ProofView): HTMLElement {
  const row = (e: EffectView, predicted: number | null): IntervalRow => ({
    label: e.title,
    text: e.text,
    className: e.tone,
    value: e.effect,
    low: e.low,
    high: e.high,
    predicted,
    margin: e.margin,
  });
  const rows = [row(p.effect, p.predicted_gain), ...p.guards.map((g) => row(g, null))];
  const keys: [string, string][] = [["good", "effect with 95 % interval"]];
  if (p.predicted_gain !== null) keys.push(["predicted", "predicted before the proof"]);
  if (p.guards.length > 0) keys.push(["margin", "border that a guard must stay left of"]);
  return h("div", {}, legend(keys), intervals(`Effects of B against A with 95 % intervals: ${rows.map((r) => `${r.label} ${r.text}`).join("; ")}`, rows, [[0, "no change"]], (v) => short(v, "change")));
}
