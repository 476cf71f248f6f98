// The way from the symptom to the cause: numbered steps, each opening to what was looked at, what it said and what it ruled out.

import { h, section } from "../dom";
import type { ReportData, WalkView } from "../generated/types";

/** Open from the start: where the time goes is the step that people ask for first. */
const OPEN = ["symptom", "time split"];

export function walk(data: ReportData): HTMLElement | null {
  if (data.walk.length === 0) return null;
  const lead = "From the symptom to the cause, in a fixed order, so that nothing is skipped because something else looked guilty.";
  return section("walk", "How it was found", lead, h("ol", { class: "walk" }, data.walk.map(step)));
}

function step(walk: WalkView): HTMLElement {
  const ruledOut = walk.ruled_out.length;
  return h(
    "li",
    {},
    h(
      "details",
      OPEN.includes(walk.step) ? { open: "" } : {},
      h("summary", {}, h("b", {}, walk.title), `: ${walk.looked_at}`, ruledOut > 0 ? `; ${ruledOut} causes ruled out` : null),
      h("ul", {}, walk.said.map((line) => h("li", {}, line))),
      ruledOut > 0 ? h("p", { class: "codes" }, "Ruled out: ", walk.ruled_out.map((id) => h("code", {}, id))) : null,
    ),
  );
}
