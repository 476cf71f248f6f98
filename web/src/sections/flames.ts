// What the CPUs ran: a flame graph for each host, the caller above what it calls, the hottest functions as a table, and what
// stands around one of them. Held against an earlier run, frames may be coloured by how far their share moved.

import { figure, legend } from "../chart";
import { h, s, section, table, type Child } from "../dom";
import type { FlameBefore, FlameView, FunctionShift, ReportData } from "../generated/types";
import { percent, points } from "../number";
import { STEPS, hottest, named, shares, step, tree, type Frame } from "../profile";
import { t } from "../text";
import { CallGraph, functionButton } from "./call_graph";

const ROW = 17;
/** Narrower frames are left out, with what they call. */
const NARROWEST_PX = 0.7;
/** Below this width no letter fits. */
const TEXT_PX = 28;
const LETTER_PX = 6.4;
/** Rows of the table. */
const HOTTEST = 20;

export function flames(data: ReportData): HTMLElement | null {
  if (data.flames.length === 0) return null;
  return section("profile", t.flames.title, t.flames.lead, profiles(data.flames, false));
}

/** Host by host, the first open; `differs`: coloured by the difference from the start. */
export function profiles(all: FlameView[], differs: boolean): Child {
  return all.map((flame, i) => (i === 0 ? host(flame, differs) : h("details", { class: "part" }, h("summary", {}, flame.host), host(flame, differs))));
}

function host(flame: FlameView, differs: boolean): HTMLElement {
  const hot = hottest(flame);
  const calls = new CallGraph(flame, hot[0]?.number ?? 0);
  return h(
    "div",
    { class: "part flame" },
    h("h3", {}, flame.host, h("small", {}, ` ${t.flames.samples(flame.samples, flame.samples_per_s)}`)),
    drawn(flame, differs, calls),
    flame.before ? moved(flame, flame.before, calls) : null,
    calls.element,
    table(
      t.flames.hottest(flame.host),
      [t.flames.function, t.flames.part, `>${t.flames.own}`, `>${t.flames.total}`],
      hot.slice(0, HOTTEST).map(({ number, own, total }) => [functionButton(flame, number, calls), partOf(flame.frames[number] ?? ""), percent(own / flame.samples), percent(total / flame.samples)]),
    ),
  );
}

const partOf = (name: string): string => (named(name).kernel ? t.flames.kernel : t.flames.program);

/** Functions whose share moved most, and those that are no longer seen: what colours alone would not tell everybody. */
function moved(flame: FlameView, before: FlameBefore, calls: CallGraph): Child {
  const known = (f: FunctionShift): Child => {
    const number = flame.frames.indexOf(f.function);
    return f.now > 0 && number >= 0 ? functionButton(flame, number, calls) : named(f.function).name;
  };
  const rows = before.moved.map((f) => [known(f), partOf(f.function), percent(f.before), percent(f.now), points(f.now - f.before)]);
  return [
    h("h4", {}, t.flames.movedOf(before.run)),
    rows.length > 0
      ? table(t.flames.movedMost(flame.host), [t.flames.function, t.flames.part, `>${t.flames.before}`, `>${t.flames.now}`, `>${t.flames.points}`], rows)
      : h("p", {}, t.flames.stayed),
    before.gone.length > 0 ? h("h4", {}, t.flames.gone) : null,
    before.gone.length > 0
      ? table(t.flames.goneOf(flame.host), [t.flames.function, t.flames.part, `>${t.flames.before}`], before.gone.map((f) => [named(f.function).name, partOf(f.function), percent(f.before)]))
      : null,
  ];
}

/** How a step of a difference is painted. */
const painted = (of: number): string => (of === 0 ? "shift-same" : `shift-${of < 0 ? "less" : "more"}-${Math.abs(of)}`);

function stepsLegend(): HTMLElement {
  const entry = (sign: -1 | 1, i: number): [string, string] => [painted(sign * (i + 1)), (sign < 0 ? t.flames.less : t.flames.more)(STEPS[i]!, STEPS[i + 1] ?? null)];
  return legend([...[2, 1, 0].map((i) => entry(-1, i)), [painted(0), t.flames.same(STEPS[0]!)], ...[0, 1, 2].map((i) => entry(1, i))]);
}

const partsLegend = (): HTMLElement =>
  legend([
    ["flame-user", t.flames.programs],
    ["flame-kernel", t.flames.kernel],
    ["flame-found", t.flames.found],
  ]);

/** The graph with its search field and the line that says what is under the pointer. */
function drawn(flame: FlameView, differs: boolean, graphOf: CallGraph): HTMLElement {
  const root = tree(flame);
  let shown = root;
  let pattern = "";
  let width = 0;
  let deepest = 0;
  let isDifference = differs && flame.before !== null;
  const frames = s("g");
  const said = h("p", { class: "flame-said" });
  const field = h("input", { type: "search", placeholder: t.flames.find, "aria-label": t.flames.findOf(flame.host) }) as HTMLInputElement;
  const back = h("button", { type: "button", hidden: "" }, t.flames.all) as HTMLButtonElement;
  const difference = flame.before ? h("button", { type: "button", class: "flame-difference" }, t.flames.difference(flame.before.run)) : null;
  const keys = h("div", { class: "legend-of" });
  const matches = (frame: Frame) => pattern !== "" && frame.name.toLowerCase().includes(pattern);
  const told = (frame: Frame) => {
    const { now, before } = shares(flame, frame);
    const text = t.flames.share(frame.name, percent(now), frame.samples, root.samples);
    return flame.before ? t.flames.shifted(text, percent(before), points(now - before)) : text;
  };
  const say = (text: string) => said.replaceChildren(text || "\u00a0");

  const zoom = (frame: Frame) => {
    shown = frame;
    back.hidden = frame === root;
    paint();
    say(frame === root ? "" : told(frame));
    if (frame !== root) graphOf.show(frame.number, false);
  };
  const look = (frame: Frame) => {
    if (!isDifference) return matches(frame) ? "flame-found" : frame.kernel ? "flame-kernel" : "flame-user";
    const { now, before } = shares(flame, frame);
    return `${painted(step(now, before))}${matches(frame) ? " flame-marked" : ""}`;
  };
  const one = (frame: Frame, x: number, w: number): SVGElement => {
    const top = frame.depth * ROW;
    const rect = s("rect", { class: look(frame), x: x.toFixed(1), y: top, width: Math.max(w - 0.5, 0.3).toFixed(1), height: ROW - 1 });
    const letters = Math.floor((w - 6) / LETTER_PX);
    const name = frame.name.length > letters ? `${frame.name.slice(0, Math.max(letters - 1, 1))}\u2026` : frame.name;
    const text = w >= TEXT_PX ? s("text", { class: isDifference ? "on-shift" : "inside", x: (x + 3).toFixed(1), y: top + 12 }, name) : null;
    const group = s("g", { class: "flame-frame" }, s("title", {}, told(frame)), rect, text);
    group.addEventListener("click", () => zoom(frame));
    group.addEventListener("pointerenter", () => say(told(frame)));
    return group;
  };
  const below = (frame: Frame, x: number, perSample: number, parts: SVGElement[]) => {
    parts.push(one(frame, x, frame.samples * perSample));
    deepest = Math.max(deepest, frame.depth);
    const calls = [...frame.calls.values()].sort((a, b) => b.samples - a.samples || (a.name < b.name ? -1 : 1));
    for (const call of calls) {
      if (call.samples * perSample < NARROWEST_PX) break;
      below(call, x, perSample, parts);
      x += call.samples * perSample;
    }
  };
  const height = () => (deepest + 1) * ROW;
  const paint = () => {
    const parts: SVGElement[] = [];
    deepest = 0;
    for (let caller = shown.parent; caller; caller = caller.parent) parts.push(one(caller, 0, width));
    below(shown, 0, width / Math.max(shown.samples, 1), parts);
    frames.replaceChildren(...parts);
    frames.ownerSVGElement?.setAttribute("viewBox", `0 0 ${width} ${height()}`);
  };
  const find = () => {
    pattern = field.value.trim().toLowerCase();
    paint();
    say(pattern ? t.flames.matched(field.value.trim(), percent(found(root, matches) / root.samples)) : "");
  };
  const colour = (byDifference: boolean) => {
    isDifference = byDifference;
    difference?.setAttribute("aria-pressed", String(byDifference));
    keys.replaceChildren(byDifference ? stepsLegend() : partsLegend());
    paint();
  };
  field.addEventListener("input", find);
  back.addEventListener("click", () => zoom(root));
  difference?.addEventListener("click", () => colour(!isDifference));
  say("");
  const graph = figure(
    t.flames.label(flame.host),
    (room) => {
      width = room;
      paint();
      return { height: height(), parts: [frames] };
    },
    keys,
  );
  colour(isDifference);
  graph.addEventListener("pointerleave", () => say(shown === root ? "" : told(shown)));
  return h("div", {}, h("div", { class: "flame-tools" }, field, difference, back), said, graph);
}

/** Samples of the outermost frames that match; what they call is theirs. */
function found(frame: Frame, matches: (frame: Frame) => boolean): number {
  if (frame.parent && matches(frame)) return frame.samples;
  return [...frame.calls.values()].reduce((sum, call) => sum + found(call, matches), 0);
}
