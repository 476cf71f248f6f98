// Runs beside each other: their load curves and latencies in one drawing each, and the effects against the first.

import { axes, figure, intervals, legend, line } from "../chart";
import { h, s, section, table, type Child } from "../dom";
import type { CarriedLoad, ComparedRun, ComparedView, RunAgainst } from "../generated/types";
import { micros, rate, short } from "../number";
import { linear, logarithmic } from "../scale";
import { profiles } from "../sections/flames";
import { latencyCurves } from "../sections/latency";
import { said, t, told } from "../text";
import { get, path, runPath } from "./ask";
import { words } from "./text";

/** The class that gives the run at this place its colour. */
const colour = (place: number) => `run-${place}`;

export async function compare(query: URLSearchParams): Promise<Child[]> {
  const data = await get<ComparedView>(path("/api/compare", { runs: query.get("runs") ?? "" }));
  const w = words().compare;
  document.title = `prony: ${w.title}`;
  const keys = legend(data.runs.map((run, i) => [colour(i), run.id]));
  const curves = data.runs.flatMap((run, i) => (run.latency ? [{ ...run.latency, kind: colour(i), name: run.id }] : []));
  const hasLoads = data.runs.some((run) => run.loads.length > 0);
  return [
    h("h1", {}, w.title),
    h("p", { class: "lead" }, w.lead),
    h("ol", { class: "compared" }, data.runs.map((run, i) => card(run, i))),
    hasLoads ? section("carried", w.carried, null, loads(data.runs, keys)) : null,
    curves.length > 0 ? section("latency", w.latency, null, latencyCurves(curves)) : null,
    data.against.map((against, i) => effects(against, i + 1)),
  ];
}

function card(run: ComparedRun, place: number): HTMLElement {
  const w = words().compare;
  return h(
    "li",
    { class: "card" },
    h("p", { class: "facts" }, h("i", { class: `swatch ${colour(place)}` }), h("a", { href: runPath(run.id) }, run.id), place === 0 ? ` (${w.first})` : null, ` \u00b7 ${run.stack} \u00b7 ${run.started}`),
    h("p", {}, told(run.sentence)),
    h("dl", { class: "few" }, run.figures.map((f) => h("div", {}, h("dt", {}, f.label), h("dd", {}, f.value)))),
  );
}

/** 99th percentile against throughput; loads of one kind are joined. */
function loads(runs: ComparedRun[], keys: HTMLElement): HTMLElement {
  const all = runs.flatMap((run) => run.loads);
  const label = `${words().compare.carried}: ${runs.map((run) => `${run.id}: ${run.loads.map((p) => `${rate(p.good_per_s)}/s, p99 ${micros(p.p99_us)}`).join(", ")}`).join("; ")}`;
  return figure(
    label,
    (width) => {
      const frame = { left: 62, right: width - 16, top: 34, bottom: 270 };
      const x = linear(0, Math.max(...all.map((p) => p.good_per_s)), frame.left, frame.right, width < 480 ? 4 : 7);
      const us = all.map((p) => p.p99_us).filter((v) => v > 0);
      const y = logarithmic(Math.min(...us) / 1.25, Math.max(...us) * 1.25, frame.bottom, frame.top);
      const drawn = (points: CarriedLoad[], className: string) => line(points.map((p) => [x(p.good_per_s), y(p.p99_us)]), className);
      const parts: Child[] = [
        axes(frame, x, y, (v) => short(v, "rate"), (v) => short(v, "micros"), { x: t.words.goodPerSecond, y: words().compare.p99 }),
        runs.map((run, i) => {
          const known = run.loads.filter((p) => p.p99_us > 0);
          const [open, closed] = [known.filter((p) => p.open_loop), known.filter((p) => !p.open_loop)];
          return [
            drawn(closed, `line ${colour(i)}`),
            drawn(open, `line open ${colour(i)}`),
            known.map((p) => s("circle", { class: `dot ${colour(i)}`, cx: x(p.good_per_s), cy: y(p.p99_us), r: 4.5 }, s("title", {}, `${run.id}, ${p.load}: ${rate(p.good_per_s)}/s, p50 ${micros(p.p50_us)}, p99 ${micros(p.p99_us)}`))),
          ];
        }),
      ];
      return { height: frame.bottom + 42, parts };
    },
    keys,
  );
}

function effects(against: RunAgainst, place: number): HTMLElement {
  const w = words().compare;
  const rows = against.changes.filter((c) => c.change !== null).map((c) => ({ label: said(c.title), text: c.text, className: c.tone, value: c.change, low: c.low, high: c.high }));
  return section(
    `against-${place}`,
    w.effects(against.run),
    null,
    h("p", { class: `note ${against.tone}` }, against.summary),
    rows.length > 0 ? h("div", {}, intervals(`${w.effects(against.run)}: ${rows.map((r) => `${r.label} ${r.text}`).join("; ")}`, rows, [[0, t.words.noChange]], (v) => short(v, "change"))) : null,
    against.changes.length > 0
      ? table(
          w.effects(against.run),
          [w.metric, `>${w.firstRun}`, `>${w.thisRun}`, `>${w.change}`, w.verdict, `>${w.detectable}`, w.trials],
          against.changes.map((c) => [said(c.title), c.a_text, c.b_text, c.text, h("span", { class: `word ${c.tone}` }, c.verdict), c.detectable, c.trials]),
        )
      : null,
    against.worth ? h("p", { class: "facts" }, h("span", { class: `word ${against.worth_tone}` }, against.worth)) : null,
    against.notes.length > 0 ? h("ul", { class: "looked" }, against.notes.map((note) => h("li", {}, note))) : null,
    against.flames.length > 0 ? h("div", {}, h("h3", { class: "part" }, t.flames.title), h("p", { class: "lead" }, t.flames.leadDifference), profiles(against.flames, true)) : null,
    against.differences.length > 0 ? h("details", {}, h("summary", {}, w.differs(against.differences.length)), h("ul", { class: "looked" }, against.differences.map((text) => h("li", {}, text)))) : null,
  );
}
