// The search for the limit: each answer with its interval, how the search came to it, what else was found, and the load curve.

import { axes, figure, legend } from "../chart";
import { h, s, section, table, type Child } from "../dom";
import type { LimitPoint, LimitStepView, LimitView, ReportData } from "../generated/types";
import { drawable, loadCurve } from "../load_curve";
import { micros, percent, rate } from "../number";
import { linear } from "../scale";
import { said, t } from "../text";

export function limit(data: ReportData): HTMLElement | null {
  const found = data.limit;
  if (!found) return null;
  return section(
    "limit",
    t.limit.title,
    t.limit.lead,
    table(
      t.limit.answers,
      [t.limit.answer, `>${t.limit.estimate}`, `>${t.limit.interval}`, t.limit.how],
      found.answers.map((a) => [said(a.label), a.value, a.interval, a.note]),
    ),
    table(
      t.limit.else,
      [t.limit.about, t.limit.found],
      found.notes.map((n) => [said(n.label), n.tone === "plain" ? n.text : h("span", { class: `word ${n.tone}` }, n.text)]),
    ),
    found.curve.length > 0 ? loads(found) : null,
    found.steps.map((steps) => searched(steps)),
    found.axis.length > 0 ? values(found) : null,
  );
}

function loads(found: LimitView): Child {
  const kind = (open: boolean) => drawable(found.curve.filter((p) => (p.rate_per_s !== null) === open)).map((p) => ({ ...p, name: knee(found, p) }));
  const [closed, open] = [kind(false), kind(true)];
  const answers = found.answers.flatMap((a) => (a.low_per_s !== null && a.high_per_s !== null ? [{ name: said(a.label), low: a.low_per_s, high: a.high_per_s }] : []));
  return [
    h("h3", { class: "part" }, t.curve.title),
    closed.length + open.length > 1 ? loadCurve([closed, open], { slo: found.slo_p99_us, answers }) : null,
    table(
      t.limit.trialsOfLoad,
      [t.words.load, `>${t.words.good}`, ">p50", ">p90", ">p99", ">p99.9", `>${t.words.failed}`, ...found.cpu_hosts.map((host) => `>${t.words.cpuPerRequest}, ${host}`), `>${t.words.trials}`, t.words.note],
      found.curve.map((p) => [p.load, rate(p.good_per_s), micros(p.p50_us), micros(p.p90_us), micros(p.p99_us), micros(p.p999_us), percent(p.error_share), ...p.cpu_us_per_request, String(p.trials), p.note]),
    ),
  ];
}

const knee = (found: LimitView, p: LimitPoint) => (p.rate_per_s === null && found.knee_per_s !== null && p.good_per_s === found.knee_per_s ? t.limit.knee : null);

/** The trials of one answer in the order they ran, and the interval after each of them. */
function searched(steps: LimitStepView[]): HTMLElement {
  const open = steps.some((p) => p.held !== null);
  const title = open ? t.limit.searchedWithin : t.limit.searched;
  const last = steps[steps.length - 1];
  // The first intervals can be wide beyond all use: they are cut at the edge, so that the trials can be told apart.
  const known = [...steps.map((p) => p.per_s), last?.low_per_s, last?.high_per_s].filter((v): v is number => typeof v === "number");
  const keys: [string, string][] = open ? [["good", t.limit.held], ["bad", t.limit.broken]] : [["p99", t.limit.oneTrial]];
  if (steps.some((p) => !p.counts)) keys.push(["left-out", t.limit.leftOut]);
  keys.push(["answer", t.limit.after]);
  const drawing = figure(
    `${title}: ${steps.map((p) => `${p.text}: ${rate(p.per_s)}/s`).join("; ")}`,
    (width) => {
      const frame = { left: 62, right: width - 16, top: 34, bottom: 250 };
      const x = linear(0, steps.length + 1, frame.left, frame.right, width < 480 ? 4 : 8);
      const pad = (Math.max(...known) - Math.min(...known)) * 0.08 || 1;
      const y = linear(Math.max(0, Math.min(...known) - pad), Math.max(...known) + pad, frame.bottom, frame.top);
      const cut = (v: number) => Math.min(frame.bottom, Math.max(frame.top, y(v)));
      const half = (x(1) - x(0)) / 2;
      const whole = { ticks: x.ticks.filter((tick) => Number.isInteger(tick) && tick > 0) };
      const parts: Child[] = [
        axes(frame, Object.assign((v: number) => x(v), { ...whole, domain: x.domain }), y, String, rate, {
          x: t.words.trials,
          y: open ? t.limit.askedFor : t.words.goodPerSecond,
        }),
        steps.map((p, i) => {
          if (p.low_per_s === null || p.high_per_s === null) return null;
          const [top, bottom] = [cut(p.high_per_s), cut(p.low_per_s)];
          return s("rect", { class: "answer", x: x(i + 1) - half, y: top, width: 2 * half, height: Math.max(1, bottom - top) });
        }),
        steps.map((p, i) => (p.per_s === null ? null : mark(p, x(i + 1), y(p.per_s)))),
      ];
      return { height: frame.bottom + 42, parts };
    },
    legend(keys),
  );
  return h("div", {}, h("h3", { class: "part" }, title), drawing);
}

/** A trial: a diamond where the objective broke, so that colour is not all that tells. */
function mark(p: LimitStepView, x: number, y: number): SVGElement {
  const title = s("title", {}, `${p.trial}, ${p.text}: ${rate(p.per_s)}/s`);
  if (p.counts && p.held === false) return s("path", { class: "dot bad", d: `M${x},${y - 6}l6,6l-6,6l-6,-6z` }, title);
  return s("circle", { class: `dot ${!p.counts ? "left-out" : p.held ? "good" : "p99"}`, cx: x, cy: y, r: 4.5 }, title);
}

function values(found: LimitView): HTMLElement {
  return table(
    found.axis_title,
    [`>${t.words.value}`, t.limit.holds, `>${t.limit.measured}`, `>${t.words.good}`, t.words.note],
    found.axis.map((p) => [String(p.value), p.held, p.measured, rate(p.good_per_s), p.note]),
  );
}
