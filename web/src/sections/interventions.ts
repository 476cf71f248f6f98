// Interventions: what was changed on purpose, and whether the limit followed. The control must not move.

import { axes, figure, intervals, legend, line } from "../chart";
import { h, s, section, table, type Child } from "../dom";
import type { DoseCurve, DosePoint, InterventionView, ReportData } from "../generated/types";
import { change, percent, short } from "../number";
import { linear } from "../scale";
import { said, t } from "../text";

export function interventions(data: ReportData): HTMLElement | null {
  if (data.interventions.length === 0) return null;
  const gains = data.interventions.filter((i) => i.value !== null && i.is_gain);
  const [slower, raised] = [data.doses.filter((d) => !d.raises), data.doses.filter((d) => d.raises)];
  return section(
    "interventions",
    t.interventions.title,
    t.interventions.lead,
    slower.length > 0 ? response(t.interventions.slower, t.interventions.slowerBy, slower) : null,
    raised.length > 0 ? response(t.interventions.raised, t.interventions.raisedBy, raised) : null,
    gains.length > 0 ? drawn(t.interventions.gain, gains) : null,
    table(
      t.interventions.title,
      [t.interventions.role, t.interventions.what, `>${t.interventions.value}`, `>${t.words.pairs}`, t.interventions.reading],
      data.interventions.map((i) => [i.control ? t.interventions.control : t.interventions.suspect, i.what, i.text, i.pairs, said(i.reading)]),
    ),
  );
}

const roleOf = (is: { control: boolean }): "control" | "suspect" => (is.control ? "control" : "suspect");

function drawn(title: string, rows: InterventionView[]): HTMLElement {
  const views = rows.map((i) => ({ label: i.what, text: i.text, className: roleOf(i), value: i.value, low: i.low, high: i.high }));
  const label = `${title}: ${views.map((v) => `${v.label} ${v.text}`).join("; ")}`;
  const keys = legend([["suspect", t.interventions.suspect], ["control", t.interventions.controlKey]]);
  return h("div", { class: "part" }, h("h3", {}, title), keys, intervals(label, views, [[0, t.words.noChange]], (v) => short(v, "change")));
}

/** Throughput against the dose: each dose with its interval, and the curve of the elasticity that fits them, from no dose on. */
function response(title: string, xTitle: string, curves: DoseCurve[]): HTMLElement {
  const points = curves.flatMap((c) => c.points);
  const most = Math.max(...points.map((p) => p.dose)) * 1.15;
  const told = (p: DosePoint) => t.interventions.point(percent(p.dose), change(p.effect), p.low === null || p.high === null ? null : [change(p.low), change(p.high)], p.pairs);
  const label = `${title}: ${curves.map((c) => `${c.resource}: ${t.interventions.elasticity(c.elasticity.toFixed(2))}; ${c.points.map(told).join("; ")}`).join("; ")}`;
  const follows = (raises: boolean, elasticity: number, dose: number) => Math.expm1(elasticity * Math.log1p(raises ? dose : -dose));
  const sole = (dose: number) => follows(curves[0]!.raises, 1, dose);
  return h(
    "div",
    { class: "part" },
    h("h3", {}, title),
    figure(
      label,
      (width) => {
        const frame = { left: 58, right: width - 16, top: 36, bottom: 250 };
        const x = linear(0, most, frame.left, frame.right, width < 480 ? 4 : 7);
        const end = Math.min(x.domain[1], curves[0]!.raises ? Infinity : 0.95);
        const values = [0, sole(end), ...curves.map((c) => follows(c.raises, c.elasticity, end)), ...points.flatMap((p) => [p.low ?? p.effect, p.high ?? p.effect])];
        const y = linear(Math.min(...values), Math.max(...values), frame.bottom, frame.top, 5);
        const curve = (of: (dose: number) => number) => Array.from({ length: 21 }, (_, i): [number, number] => [x((end * i) / 20), y(of((end * i) / 20))]);
        const parts: Child[] = [
          axes(frame, x, y, (v) => percent(v), (v) => short(v, "change"), { x: xTitle, y: t.interventions.effect }),
          s("line", { class: "mark", x1: frame.left, x2: frame.right, y1: y(0), y2: y(0) }),
          line(curve(sole), "line sole"),
          curves.map((c) => [
            line(curve((dose) => follows(c.raises, c.elasticity, dose)), `line ${roleOf(c)}`),
            c.points.map((p) => [
              p.low === null || p.high === null ? null : bar(roleOf(c), x(p.dose), y(p.low), y(p.high)),
              s("circle", { class: `dot ${roleOf(c)}`, cx: x(p.dose), cy: y(p.effect), r: 5 }, s("title", {}, `${c.resource}: ${told(p)}`)),
            ]),
          ]),
          s("circle", { class: "dot origin", cx: x(0), cy: y(0), r: 4 }, s("title", {}, t.interventions.origin)),
        ];
        return { height: frame.bottom + 42, parts };
      },
      legend([...curves.map((c): [string, string] => [roleOf(c), keyOf(c)]), ["sole", t.interventions.soleKey]]),
    ),
  );
}

const keyOf = (c: DoseCurve): string => `${c.control ? t.interventions.controlKey : t.interventions.suspect}: ${c.resource}, ${t.interventions.elasticity(c.elasticity.toFixed(2))}`;

/** An interval with its ends marked, which show also where it is shorter than its dot. */
const bar = (role: string, x: number, y1: number, y2: number): Child => [
  s("line", { class: `interval ${role}`, x1: x, x2: x, y1, y2 }),
  s("path", { class: `ends ${role}`, d: `M${x - 9},${y1}h18M${x - 9},${y2}h18` }),
];
