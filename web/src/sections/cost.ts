// What prony itself took from the stack while it measured.

import { section, table } from "../dom";
import type { ReportData } from "../generated/types";
import { micros, percent } from "../number";
import { t } from "../text";

export function cost(data: ReportData): HTMLElement | null {
  const { hosts, generator_cpu_us_per_request: generator } = data.cost;
  if (hosts.length === 0 && generator === null) return null;
  const lead = generator === null ? t.cost.lead : `${t.cost.lead} ${t.cost.generator(micros(generator))}`;
  return section(
    "cost",
    t.cost.title,
    lead,
    hosts.length > 0
      ? table(t.cost.title, [t.words.host, `>${t.cost.observing}`, `>${t.cost.own}`], hosts.map((host) => [host.host, percent(host.observe_cpu_share), micros(host.cpu_us_per_request)]))
      : null,
  );
}
