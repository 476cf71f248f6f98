// The drawing of a load curve: latency against what was carried. Loads of one kind (closed loop, open loop) are joined by lines.

import { axes, figure, legend, line } from "./chart";
import { s, type Child } from "./dom";
import { micros, rate, short } from "./number";
import { linear, logarithmic } from "./scale";
import { t } from "./text";

export interface Load {
  /** What was put on the stack, in words. */
  load: string;
  /** Its name in the drawing; none for most. */
  name: string | null;
  good_per_s: number;
  p50_us: number;
  p99_us: number;
  /** Why it is doubtful; empty when it is not. */
  note: string;
}

export interface Marks {
  /** Objective: largest p99, in microseconds. */
  slo: number | null;
  /** Throughputs with a name, each an interval. */
  answers: { name: string; low: number; high: number }[];
}

/** Loads that can be drawn, of points that may lack a figure. */
export function drawable<P extends { good_per_s: number | null; p50_us: number | null; p99_us: number | null }>(points: P[]): (P & { good_per_s: number; p50_us: number; p99_us: number })[] {
  return points.filter((p): p is P & { good_per_s: number; p50_us: number; p99_us: number } => p.good_per_s !== null && !!p.p50_us && !!p.p99_us);
}

/** The drawing; `joined` are the loads that one line goes through, a second list gets a dashed line. */
export function loadCurve(joined: Load[][], marks: Marks): HTMLElement {
  const points = joined.flat();
  const label = `${t.curve.title}: ${points.map((p) => `${p.name ?? p.load}: ${rate(p.good_per_s)}/s, p50 ${micros(p.p50_us)}, p99 ${micros(p.p99_us)}`).join("; ")}`;
  const keys: [string, string][] = [["p50", `p50 ${t.words.latency}`], ["p99", `p99 ${t.words.latency}`]];
  if (marks.slo !== null) keys.push(["slo", t.curve.slo(micros(marks.slo))]);
  if (joined.filter((loads) => loads.length > 0).length > 1) keys.push(["open", t.curve.open]);
  if (marks.answers.length > 0) keys.push(["answer", t.curve.answer]);
  return figure(
    label,
    (width) => {
      const frame = { left: 62, right: width - 16, top: 34, bottom: 250 };
      const most = Math.max(...points.map((p) => p.good_per_s), ...marks.answers.map((a) => a.high));
      const x = linear(0, most, frame.left, frame.right, width < 480 ? 4 : 7);
      const all = points.flatMap((p) => [p.p50_us, p.p99_us]).concat(marks.slo ?? []);
      const y = logarithmic(Math.min(...all) / 1.25, Math.max(...all) * 1.25, frame.bottom, frame.top);
      const of = (loads: Load[], key: "p50_us" | "p99_us") => loads.map((p): [number, number] => [x(p.good_per_s), y(p[key])]);
      const parts: Child[] = [
        axes(frame, x, y, (v) => short(v, "rate"), (v) => short(v, "micros"), { x: t.words.goodPerSecond, y: t.words.latency }),
        marks.answers.map((a) => band(a, x, frame)),
        marks.slo === null ? null : s("line", { class: "slo", x1: frame.left, x2: frame.right, y1: y(marks.slo), y2: y(marks.slo) }),
        joined.map((loads, i) => [line(of(loads, "p50_us"), `line p50${i > 0 ? " open" : ""}`), line(of(loads, "p99_us"), `line p99${i > 0 ? " open" : ""}`)]),
        points.map((p) => [dot(p, x(p.good_per_s), y(p.p50_us), "p50"), dot(p, x(p.good_per_s), y(p.p99_us), "p99")]),
        points.filter((p) => p.name !== null).map((p, i, named) => {
          // Names that stand close together go one below the other.
          const near = named.slice(0, i).filter((q) => Math.abs(x(q.good_per_s) - x(p.good_per_s)) < 110 && Math.abs(y(q.p99_us) - y(p.p99_us)) < 16).length;
          // Curves rise to the right, so there is more room above them to the left of a point; near the limit they come back.
          const at = x(p.good_per_s);
          const left = at > frame.right - 120 || (p.good_per_s < 0.75 * most && at > frame.left + 130);
          return s("text", { class: "row", x: at + (left ? -10 : 10), y: y(p.p99_us) - 8 - near * 15, "text-anchor": left ? "end" : "start" }, p.name);
        }),
      ];
      return { height: frame.bottom + 42, parts };
    },
    legend(keys),
  );
}

/** An answer as a band from its lower to its upper end, at least wide enough to be seen. */
function band(answer: { name: string; low: number; high: number }, x: (v: number) => number, frame: { top: number; bottom: number }): Child {
  const from = x(answer.low);
  const title = `${answer.name}: ${rate(answer.low)} \u2013 ${rate(answer.high)}/s`;
  return s("rect", { class: "answer", x: from, y: frame.top, width: Math.max(2, x(answer.high) - from), height: frame.bottom - frame.top }, s("title", {}, title));
}

function dot(p: Load, cx: number, cy: number, className: string): SVGElement {
  return s("circle", { class: `dot ${className}${p.note ? " doubtful" : ""}`, cx, cy, r: 4.5 }, s("title", {}, `${p.load}: ${rate(p.good_per_s)}/s, p50 ${micros(p.p50_us)}, p99 ${micros(p.p99_us)}${p.note ? `; ${p.note}` : ""}`));
}
