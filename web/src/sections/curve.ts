// The load curve of a diagnosis: latency against what was carried, with the three levels named, and the objective if there is one.

import { section, table } from "../dom";
import type { CurvePoint, ReportData } from "../generated/types";
import { drawable, loadCurve } from "../load_curve";
import { micros, percent, rate, NONE } from "../number";
import { said, t } from "../text";

const load = (p: CurvePoint) => (p.rate_per_s === null ? t.curve.connections(p.connections) : t.curve.asked(rate(p.rate_per_s)));

export function curve(data: ReportData): HTMLElement | null {
  // A search has a curve of its own, of the trials that count.
  if (data.curve.length === 0 || data.limit) return null;
  const known = drawable(data.curve).map((p) => ({ ...p, load: load(p), name: p.level === null ? null : said(p.label) }));
  const cpuOf = data.curve_cpu_host ? `>${t.words.cpuPerRequest}, ${data.curve_cpu_host}` : `>${t.words.cpuPerRequest}`;
  return section(
    "curve",
    t.curve.title,
    t.curve.lead,
    known.length > 1 ? loadCurve([known], { slo: data.slo_p99_us, answers: [] }) : null,
    table(
      t.curve.title,
      [t.words.level, t.words.load, `>${t.words.good}`, ">p50", ">p99", `>${t.words.failed}`, cpuOf, t.words.note],
      data.curve.map((p) => [said(p.label) || NONE, load(p), rate(p.good_per_s), micros(p.p50_us), micros(p.p99_us), percent(p.error_share), micros(p.cpu_us_per_request), p.note]),
    ),
  );
}
