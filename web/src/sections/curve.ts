// The load curve: latency against what was carried, with the three levels named, and the objective if there is one.

import { axes, figure, legend, line, linear, logarithmic } from "../chart";
import { s, section, table, type Child } from "../dom";
import type { CurvePoint, ReportData } from "../generated/types";
import { micros, percent, rate, short, NONE } from "../number";

type Known = CurvePoint & { good_per_s: number; p50_us: number; p99_us: number };

const load = (p: CurvePoint) => (p.rate_per_s === null ? `${p.connections} connections` : `${rate(p.rate_per_s)}/s asked`);

export function curve(data: ReportData): HTMLElement | null {
  if (data.curve.length === 0) return null;
  const known = data.curve.filter((p): p is Known => p.good_per_s !== null && !!p.p50_us && !!p.p99_us);
  const cpuOf = data.curve_cpu_host ? `>CPU per request, ${data.curve_cpu_host}` : ">CPU per request";
  return section(
    "curve",
    "Load curve",
    "What the stack carried at each load, and how long its answers took.",
    known.length > 1 ? drawn(known, data.slo_p99_us) : null,
    table(
      "Load curve",
      ["Level", "Load", ">Good requests/s", ">p50", ">p99", ">Failed", cpuOf, "Note"],
      data.curve.map((p) => [p.label || NONE, load(p), rate(p.good_per_s), micros(p.p50_us), micros(p.p99_us), percent(p.error_share), micros(p.cpu_us_per_request), p.note]),
    ),
  );
}

function drawn(points: Known[], slo: number | null): HTMLElement {
  const label = `Load curve: ${points.map((p) => `${p.label || load(p)}: ${rate(p.good_per_s)} requests/s, p50 ${micros(p.p50_us)}, p99 ${micros(p.p99_us)}`).join("; ")}`;
  const keys: [string, string][] = [["p50", "p50 latency"], ["p99", "p99 latency"]];
  if (slo !== null) keys.push(["slo", `objective: p99 within ${micros(slo)}`]);
  return figure(
    label,
    (width) => {
      const frame = { left: 62, right: width - 16, top: 34, bottom: 250 };
      const x = linear(0, Math.max(...points.map((p) => p.good_per_s)), frame.left, frame.right, width < 480 ? 4 : 7);
      const all = points.flatMap((p) => [p.p50_us, p.p99_us]).concat(slo ?? []);
      const y = logarithmic(Math.min(...all) / 1.25, Math.max(...all) * 1.25, frame.bottom, frame.top);
      const of = (key: "p50_us" | "p99_us") => points.map((p): [number, number] => [x(p.good_per_s), y(p[key])]);
      const parts: Child[] = [
        axes(frame, x, y, (v) => short(v, "rate"), (v) => short(v, "micros"), { x: "good requests per second", y: "latency" }),
        slo === null ? null : s("line", { class: "slo", x1: frame.left, x2: frame.right, y1: y(slo), y2: y(slo) }),
        line(of("p50_us"), "line p50"),
        line(of("p99_us"), "line p99"),
        points.map((p) => [dot(p, x(p.good_per_s), y(p.p50_us), "p50"), dot(p, x(p.good_per_s), y(p.p99_us), "p99")]),
        points.filter((p) => p.level !== null).map((p, i, named) => {
          // Levels that stand close together get their names one below the other.
          const near = named.slice(0, i).filter((q) => Math.abs(x(q.good_per_s) - x(p.good_per_s)) < 110 && Math.abs(y(q.p99_us) - y(p.p99_us)) < 16).length;
          const right = x(p.good_per_s) > frame.right - 120;
          return s("text", { class: "row", x: x(p.good_per_s) + (right ? -10 : 10), y: y(p.p99_us) - 8 - near * 15, "text-anchor": right ? "end" : "start" }, p.label);
        }),
      ];
      return { height: frame.bottom + 42, parts };
    },
    legend(keys),
  );
}

function dot(p: Known, cx: number, cy: number, className: string): SVGElement {
  return s("circle", { class: `dot ${className}${p.note ? " doubtful" : ""}`, cx, cy, r: 4.5 }, s("title", {}, `${load(p)}: ${rate(p.good_per_s)}/s, p50 ${micros(p.p50_us)}, p99 ${micros(p.p99_us)}${p.note ? `; ${p.note}` : ""}`));
}
