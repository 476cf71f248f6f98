// What could not be seen, and why. A missing fact is never shown as 0.

import { h, section, table } from "../dom";
import type { ReportData } from "../generated/types";

export function gaps(data: ReportData): HTMLElement | null {
  if (data.gaps.length === 0) return null;
  return section(
    "gaps",
    "Not seen",
    "Facts that were wanted and could not be read. Nothing in this report takes them for zero.",
    table("Facts that could not be read", ["Fact", "Host", "Why"], data.gaps.map((g) => [h("span", { class: "codes" }, g.facts.map((f) => h("code", {}, f))), g.host || "the whole run", g.reason])),
  );
}
