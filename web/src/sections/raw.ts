// Every trial and every fact about the hosts, folded away on the screen and open on paper.

import { h, section, table } from "../dom";
import type { ReportData } from "../generated/types";
import { count, micros, rate, seconds } from "../number";
import { t } from "../text";

export function raw(data: ReportData): HTMLElement | null {
  if (data.trials.length === 0 && data.inventory.length === 0) return null;
  const folded = (title: string, content: HTMLElement) => h("details", {}, h("summary", {}, title), content);
  return section(
    "raw",
    t.raw.title,
    null,
    data.trials.length > 0 ? folded(t.raw.trials(data.trials.length), trials(data)) : null,
    data.inventory.map((host) =>
      folded(t.raw.host(host.host, host.facts.length), table(t.raw.factsOf(host.host), [t.words.fact, t.words.value], host.facts.map((f) => [h("code", {}, f.name), f.value]))),
    ),
  );
}

function trials(data: ReportData): HTMLElement {
  return table(
    t.raw.inOrder,
    [">#", t.raw.purpose, `>${t.raw.start}`, `>${t.raw.length}`, `>${t.raw.connections}`, `>${t.raw.asked}`, `>${t.words.good}`, ">p50", ">p99", `>${t.words.failed}`, `>${t.raw.generator}`, t.words.note],
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
