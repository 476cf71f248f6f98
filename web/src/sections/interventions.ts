// Interventions: what was changed on purpose, and whether the limit followed. The control must not move.

import { intervals, legend } from "../chart";
import { h, section, table } from "../dom";
import type { InterventionView, ReportData } from "../generated/types";
import { short } from "../number";

export function interventions(data: ReportData): HTMLElement | null {
  if (data.interventions.length === 0) return null;
  const lead =
    "The suspect is made a little worse on purpose, and so is something that is not suspected (the control). Elasticity 1 means that the limit follows fully, 0 that it does not care.";
  const done = data.interventions.filter((i) => i.value !== null);
  const elasticities = done.filter((i) => !i.is_gain);
  const gains = done.filter((i) => i.is_gain);
  return section(
    "interventions",
    "Interventions",
    lead,
    done.length > 0 ? legend([["suspect", "suspect"], ["control", "control: nothing is expected"]]) : null,
    elasticities.length > 0 ? drawn("Elasticity of throughput", elasticities, [[0, "free"], [1, "sole limit"]], (v) => String(v)) : null,
    gains.length > 0 ? drawn("Gain when the suspect is removed", gains, [[0, "no change"]], (v) => short(v, "change")) : null,
    table(
      "Interventions",
      ["Role", "What was done", ">Elasticity or gain (95 % interval)", ">Pairs", "Reading"],
      data.interventions.map((i) => [i.control ? "control" : "suspect", i.what, i.text, i.pairs, i.reading]),
    ),
  );
}

function drawn(title: string, rows: InterventionView[], marks: [number, string][], tickText: (v: number) => string): HTMLElement {
  const views = rows.map((i) => ({ label: i.what, text: i.text, className: i.control ? "control" : "suspect", value: i.value, low: i.low, high: i.high }));
  return h("div", { class: "part" }, h("h3", {}, title), intervals(`${title}: ${views.map((v) => `${v.label} ${v.text}`).join("; ")}`, views, marks, tickText));
}
