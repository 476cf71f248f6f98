// The history of a stack: a value per run, and where it changed for good.

import { axes, figure } from "../chart";
import { h, s, section, table, type Child } from "../dom";
import type { RunList } from "../generated/api";
import type { HistoryLine, HistoryView } from "../generated/types";
import { inUnit, onAxis } from "../number";
import { linear } from "../scale";
import { get, path, runPath } from "./ask";
import { stretches } from "./stretches";
import { words } from "./text";

export async function history(query: URLSearchParams): Promise<Child[]> {
  const w = words().history;
  const { stacks } = await get<RunList>(path("/api/runs", { limit: 1 }));
  const stack = query.get("stack") ?? stacks[0]?.name ?? "";
  document.title = `prony: ${w.of(stack)}`;
  const option = ({ name, runs }: { name: string; runs: number }) => h("option", { value: name, selected: name === stack ? "" : false }, `${name} (${runs})`);
  const select = h("select", { "aria-label": w.choose }, stacks.map(option)) as HTMLSelectElement;
  select.addEventListener("change", () => location.assign(path("/history", { stack: select.value })));
  const data = stack ? await get<HistoryView>(path("/api/history", { stack })) : { series: [], notes: [], runs: 0 };
  return [
    h("h1", {}, stack ? w.of(stack) : w.title),
    h("p", { class: "lead" }, w.lead),
    h("div", { class: "filters" }, select),
    data.series.length === 0 ? h("p", { class: "note warn" }, w.none) : data.series.map((line, i) => series(line, i)),
    h("ul", { class: "looked" }, data.notes.map((note) => h("li", {}, note))),
  ];
}

function series(line: HistoryLine, place: number): HTMLElement {
  const w = words().history;
  return section(
    `series-${place}`,
    `${line.title}: ${line.label}`,
    null,
    drawn(line),
    line.changes.length === 0
      ? h("p", { class: "facts" }, w.steady)
      : table(
          w.change,
          [w.run, w.change],
          line.changes.map((change) => [h("a", { href: runPath(change.run) }, change.run), h("span", { class: `word ${change.worse ? "bad" : "good"}` }, change.text)]),
        ),
  );
}

function drawn(line: HistoryLine): HTMLElement {
  const label = `${words().history.chart(line.title, line.runs.length)}: ${line.values.map((value) => inUnit(value, line.unit)).join(", ")}`;
  return figure(label, (width) => {
    const frame = { left: 70, right: width - 16, top: 30, bottom: 190 };
    const x = (i: number) => frame.left + ((i + 0.5) / line.values.length) * (frame.right - frame.left);
    const y = linear(Math.min(0, ...line.values), Math.max(...line.values, 1e-9), frame.bottom, frame.top, 4);
    const none = Object.assign((v: number) => v, { ticks: [], domain: [0, 1] as [number, number] });
    const parts: Child[] = [
      axes(frame, none, y, String, (v) => onAxis(v, line.unit), { x: words().history.order, y: line.title }),
      stretches(line).map(({ from, to, mean, tone }) => s("line", { class: `stretch ${tone}`, x1: x(from) - 4, x2: x(to - 1) + 4, y1: y(mean), y2: y(mean) })),
      line.values.map((value, i) => {
        const run = line.runs[i]!;
        const change = line.changes.find(({ index }) => index === i);
        const text = `${run}: ${inUnit(value, line.unit)}`;
        const className = `dot${change ? (change.worse ? " bad" : " good") : ""}`;
        return s("a", { href: runPath(run), "aria-label": text }, s("circle", { class: className, cx: x(i), cy: y(value), r: change ? 6 : 4.5 }, s("title", {}, text)));
      }),
    ];
    return { height: frame.bottom + 42, parts };
  });
}
