// Interventions: what was changed on purpose, and whether the limit followed. The control must not move.

import { intervals, legend } from "../chart";
import { h, section, table } from "../dom";
import type { InterventionView, ReportData } from "../generated/types";
import { short } from "../number";
import { t } from "../text";

export function interventions(data: ReportData): HTMLElement | null {
  if (data.interventions.length === 0) return null;
  const done = data.interventions.filter((i) => i.value !== null);
  const elasticities = done.filter((i) => !i.is_gain);
  const gains = done.filter((i) => i.is_gain);
  return section(
    "interventions",
    t.interventions.title,
    t.interventions.lead,
    done.length > 0 ? legend([["suspect", t.interventions.suspect], ["control", t.interventions.controlKey]]) : null,
    elasticities.length > 0 ? drawn(t.interventions.elasticity, elasticities, [[0, t.interventions.free], [1, t.interventions.sole]], (v) => String(v)) : null,
    gains.length > 0 ? drawn(t.interventions.gain, gains, [[0, t.words.noChange]], (v) => short(v, "change")) : null,
    table(
      t.interventions.title,
      [t.interventions.role, t.interventions.what, `>${t.interventions.value}`, `>${t.words.pairs}`, t.interventions.reading],
      data.interventions.map((i) => [i.control ? t.interventions.control : t.interventions.suspect, i.what, i.text, i.pairs, i.reading]),
    ),
  );
}

function drawn(title: string, rows: InterventionView[], marks: [number, string][], tickText: (v: number) => string): HTMLElement {
  const views = rows.map((i) => ({ label: i.what, text: i.text, className: i.control ? "control" : "suspect", value: i.value, low: i.low, high: i.high }));
  return h("div", { class: "part" }, h("h3", {}, title), intervals(`${title}: ${views.map((v) => `${v.label} ${v.text}`).join("; ")}`, views, marks, tickText));
}
