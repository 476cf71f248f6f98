// What could not be seen, and why. A missing fact is never shown as 0.

import { h, marked, section, table } from "../dom";
import type { ReportData } from "../generated/types";
import { t } from "../text";

export function gaps(data: ReportData): HTMLElement | null {
  if (data.gaps.length === 0) return null;
  return section(
    "gaps",
    t.gaps.title,
    t.gaps.lead,
    table(t.gaps.title, [t.words.fact, t.words.host, t.gaps.why], data.gaps.map((g) => [h("span", { class: "codes" }, g.facts.map((f) => h("code", {}, f))), g.host || t.gaps.wholeRun, marked(g.reason)])),
  );
}
