// Every trial and every fact about the hosts, folded away on the screen and open on paper.

import { h, section, table } from "../dom";
import type { ReportData } from "../generated/types";
import { count, micros, rate, seconds } from "../number";

export function raw(data: ReportData): HTMLElement | null {
  if (data.trials.length === 0 && data.inventory.length === 0) return null;
  const folded = (title: string, content: HTMLElement) => h("details", {}, h("summary", {}, title), content);
  return section(
    "raw",
    "Raw tables",
    null,
    data.trials.length > 0 ? folded(`All ${data.trials.length} trials`, trials(data)) : null,
    data.inventory.map((host) =>
      folded(`What ${host.host} is (${host.facts.length} facts)`, table(`Facts of ${host.host}`, ["Fact", "Value"], host.facts.map((f) => [h("code", {}, f.name), f.value]))),
    ),
  );
}

function trials(data: ReportData): HTMLElement {
  return table(
    "Trials in the order they ran",
    [">#", "Purpose", ">Start", ">Length", ">Connections", ">Rate asked", ">Good/s", ">p50", ">p99", ">Failed", ">Generator CPU", "Note"],
    data.trials.map((t) => [
      t.id,
      t.purpose,
      `${t.at_s.toFixed(1)} s`,
      seconds(t.duration_s),
      count(t.connections),
      rate(t.rate_per_s),
      rate(t.good_per_s),
      micros(t.p50_us),
      micros(t.p99_us),
      count(t.errors),
      micros(t.generator_us_per_request),
      t.note,
    ]),
  );
}
