// What is not as in a good run of the same stack: settings first, then facts that moved.

import { h, section, table } from "../dom";
import type { ReportData } from "../generated/types";
import { t } from "../text";

export function against(data: ReportData): HTMLElement | null {
  const against = data.against;
  if (!against) return null;
  return section(
    "against",
    t.against.title,
    t.against.lead(against.run, against.throughput),
    against.settings.length > 0 ? h("ul", {}, against.settings.map((setting) => h("li", {}, setting))) : null,
    against.moved.length > 0
      ? table(t.against.moved, [t.words.fact, t.words.host, `>${t.against.then}`, `>${t.against.now}`, t.against.change], against.moved.map((m) => [h("code", {}, m.metric), m.host, m.good, m.now, m.change]))
      : h("p", {}, t.against.nothing),
  );
}
