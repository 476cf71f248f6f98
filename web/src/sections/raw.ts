// Every trial, what made it valid, and every fact about the hosts, folded away on the screen. Paper shows all but the facts of a
// host that is folded: that would be a page for each, and what differs stands in one table.

import { h, section, table } from "../dom";
import type { HostFacts, ReportData } from "../generated/types";
import { count, micros, rate, seconds } from "../number";
import { said, t } from "../text";

export function raw(data: ReportData): HTMLElement | null {
  if (data.trials.length === 0 && data.inventory.length === 0) return null;
  const folded = (title: string, content: HTMLElement, name = "") => h("details", { class: name }, h("summary", {}, title), content);
  return section(
    "raw",
    t.raw.title,
    null,
    data.trials.length > 0 ? folded(t.raw.trials(data.trials.length), trials(data)) : null,
    data.gates.length > 0 ? folded(t.raw.gates(data.gates.filter((g) => g.held < g.trials).length, data.gates.length), gates(data)) : null,
    differences(data.inventory, folded),
    data.inventory.map((host) =>
      folded(t.raw.host(host.host, host.facts.length), table(t.raw.factsOf(host.host), [t.words.fact, t.words.value], host.facts.map((f) => [h("code", {}, f.name), f.value])), "host-facts"),
    ),
  );
}

function gates(data: ReportData): HTMLElement {
  const held = (g: { held: number; trials: number }) => h("span", { class: g.held === g.trials ? "word good" : "word warn" }, t.raw.heldIn(g.held, g.trials));
  return table(
    t.raw.gatesOf,
    [t.raw.gate, t.raw.asks, `>${t.raw.held}`, t.words.note],
    data.gates.map((g) => [h("code", {}, g.gate), said(g.title), held(g), [g.detail, g.held < g.trials && g.bounds ? t.raw.bounds : null]]),
  );
}

/** Facts that hosts have in common by name and not by value. */
export function differing(hosts: HostFacts[]): { name: string; values: string[] }[] {
  const names = [...new Set(hosts.flatMap((host) => host.facts.map((f) => f.name)))].sort();
  const of = (name: string) => hosts.map((host) => host.facts.find((f) => f.name === name)?.value ?? "");
  const differs = (values: string[]) => new Set(values.filter((value) => value !== "")).size > 1;
  return names.map((name) => ({ name, values: of(name) })).filter(({ values }) => differs(values));
}

function differences(hosts: HostFacts[], folded: (title: string, content: HTMLElement) => HTMLElement): HTMLElement | null {
  const facts = differing(hosts);
  if (facts.length === 0) return null;
  const rows = facts.map(({ name, values }) => [h("code", {}, name), ...values]);
  return folded(t.raw.differ(facts.length), table(t.raw.differ(facts.length), [t.words.fact, ...hosts.map((host) => host.host)], rows));
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
