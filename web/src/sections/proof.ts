// Before and after: every trial in the order it ran, then each effect with its 95 % interval.

import { figure, intervals, legend, type IntervalRow } from "../chart";
import { h, marked, s, section, table, type Child } from "../dom";
import type { EffectView, ProofView, ReportData } from "../generated/types";
import { percent, rate, short } from "../number";
import { linear } from "../scale";
import { said, t } from "../text";

export function proof(data: ReportData): HTMLElement | null {
  const p = data.proof;
  if (!p) return null;
  const lead = p.change ? [t.proof.armsBefore, h("code", {}, p.change), t.proof.armsAfter] : t.proof.aa;
  return section(
    "proof",
    t.proof.title,
    lead,
    p.summary ? h("p", { class: `note ${p.tone}` }, led(p.summary, (word) => h("b", {}, word))) : null,
    p.trials.length > 0 ? trials(p) : null,
    effects(p),
    h("p", { class: "facts" }, facts(p)),
    p.worth ? h("p", { class: "facts" }, led(p.worth, (word) => h("span", { class: `word ${p.worth_tone}` }, word))) : null,
    table(
      t.proof.effects,
      [t.words.metric, ">A", ">B", `>${t.proof.effect}`, `>${t.proof.margin}`, t.proof.verdict],
      [p.effect, ...p.guards].map((e) => [said(e.title), e.a_text, e.b_text, e.text, e.margin === null ? "" : percent(e.margin), h("span", { class: `word ${e.tone}` }, said(e.state || p.verdict_title))]),
    ),
  );
}

/** A sentence that begins with its verdict and a colon: the verdict stands out. */
function led(sentence: string, verdict: (word: string) => Child): Child[] {
  const end = sentence.indexOf(":") + 1;
  return [verdict(sentence.slice(0, end)), marked(sentence.slice(end))];
}

function facts(p: ProofView): string {
  const parts = [t.proof.pairs(p.effect.pairs, p.seed)];
  if (p.effect.detectable !== null) parts.push(t.proof.detectable(percent(p.effect.detectable)));
  if (p.effect.p !== null) parts.push(t.proof.p(p.effect.p.toPrecision(2)));
  if (p.prediction) parts.push(p.prediction);
  return parts.join(" \u00b7 ");
}

function trials(p: ProofView): HTMLElement {
  const what = p.effect.metric === "good_per_s" ? t.words.goodPerSecond : t.proof.soonness;
  const known = p.trials.map((trial) => trial.per_s ?? 0);
  const keys = legend([["a", t.proof.asFound], ["b", t.proof.changed]]);
  const mean = (arm: string) => {
    const values = p.trials.filter((trial) => trial.arm === arm && (trial.per_s ?? 0) > 0).map((trial) => Math.log(trial.per_s!));
    return values.length ? Math.exp(values.reduce((sum, v) => sum + v, 0) / values.length) : null;
  };
  return figure(
    t.proof.trialsLabel(what, p.trials.length, rate(mean("A")), rate(mean("B"))),
    (width) => {
      const frame = { left: 46, right: width - 70, top: 28, bottom: 190 };
      const y = linear(0, Math.max(...known), frame.bottom, frame.top, 5);
      const step = (frame.right - frame.left) / p.trials.length;
      const parts: Child[] = [
        y.ticks.map((tick) => [
          s("line", { class: "grid", x1: frame.left, x2: frame.right, y1: y(tick), y2: y(tick) }),
          s("text", { class: "tick", x: frame.left - 8, y: y(tick) + 4, "text-anchor": "end" }, short(tick, "rate")),
        ]),
        s("text", { class: "axis", x: 0, y: 12 }, what),
        s("text", { class: "axis", x: frame.right, y: frame.bottom + 20, "text-anchor": "end" }, t.raw.inOrder),
        (["A", "B"] as const).map((arm) => {
          const m = mean(arm);
          return m === null
            ? null
            : [
                s("line", { class: `mean ${arm.toLowerCase()}`, x1: frame.left, x2: frame.right, y1: y(m), y2: y(m) }),
                s("text", { class: "row value", x: frame.right + 8, y: y(m) + 4 }, `${arm} ${rate(m)}`),
              ];
        }),
        p.trials.map((trial, i) =>
          trial.per_s === null
            ? null
            : s("circle", { class: `dot ${trial.arm.toLowerCase()}`, cx: frame.left + (i + 0.5) * step, cy: y(trial.per_s), r: 4.5 }, s("title", {}, `${i + 1}, ${trial.arm}: ${rate(trial.per_s)}/s`)),
        ),
      ];
      return { height: frame.bottom + 28, parts };
    },
    keys,
  );
}

function effects(p: ProofView): HTMLElement {
  const row = (e: EffectView, predicted: number | null): IntervalRow => ({
    label: said(e.title),
    text: e.text,
    className: e.tone,
    value: e.effect,
    low: e.low,
    high: e.high,
    predicted,
    margin: e.margin,
  });
  const rows = [row(p.effect, p.predicted_gain), ...p.guards.map((g) => row(g, null))];
  const keys: [string, string][] = [["good", t.proof.effect]];
  if (p.predicted_gain !== null) keys.push(["predicted", t.proof.predicted]);
  if (p.guards.length > 0) keys.push(["margin", t.proof.marginKey]);
  return h("div", {}, legend(keys), intervals(`${t.proof.effects}: ${rows.map((r) => `${r.label} ${r.text}`).join("; ")}`, rows, [[0, t.words.noChange]], (v) => short(v, "change")));
}
