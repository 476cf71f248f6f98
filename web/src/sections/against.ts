// What is not as in a good run of the same stack: settings first, then facts that moved.

import { h, section, table } from "../dom";
import type { ReportData } from "../generated/types";

export function against(data: ReportData): HTMLElement | null {
  const against = data.against;
  if (!against) return null;
  return section(
    "against",
    "What differs from a good run",
    `Against run ${against.run}: ${against.throughput}. Facts are per request, the greatest change first.`,
    against.settings.length > 0 ? h("ul", {}, against.settings.map((setting) => h("li", {}, setting))) : null,
    against.moved.length > 0
      ? table("Facts that moved", ["Fact", "Host", ">Then", ">Now", "Change"], against.moved.map((m) => [h("code", {}, m.metric), m.host, m.good, m.now, m.change]))
      : h("p", {}, "No fact moved by more than trials of one run differ among themselves."),
  );
}
