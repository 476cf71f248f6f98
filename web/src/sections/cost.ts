// What prony itself took from the stack while it measured.

import { section, table } from "../dom";
import type { ReportData } from "../generated/types";
import { micros, percent } from "../number";

export function cost(data: ReportData): HTMLElement | null {
  const { hosts, generator_cpu_us_per_request: generator } = data.cost;
  if (hosts.length === 0 && generator === null) return null;
  const lead = generator === null ? "CPU that prony itself took." : `CPU that prony itself took. The generator needed ${micros(generator)} per request.`;
  return section(
    "cost",
    "Cost of measuring",
    lead,
    hosts.length > 0
      ? table("Cost on each host", ["Host", ">Observing, share of one CPU", ">The host's own CPU per request"], hosts.map((host) => [host.host, percent(host.observe_cpu_share), micros(host.cpu_us_per_request)]))
      : null,
  );
}
