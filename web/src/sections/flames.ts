// What the CPUs ran: a flame graph for each host, the caller above what it calls, and the hottest functions as a table.

import { figure, legend } from "../chart";
import { h, s, section, table } from "../dom";
import type { FlameView, ReportData } from "../generated/types";
import { percent } from "../number";
import { t } from "../text";

const KERNEL = "_[k]";
const ROW = 17;
/** Narrower frames are left out, with what they call. */
const NARROWEST_PX = 0.7;
/** Below this width no letter fits. */
const TEXT_PX = 28;
const LETTER_PX = 6.4;
/** Rows of the table. */
const HOTTEST = 20;

interface Frame {
  name: string;
  kernel: boolean;
  samples: number;
  parent: Frame | null;
  depth: number;
  calls: Map<number, Frame>;
}

export function flames(data: ReportData): HTMLElement | null {
  if (data.flames.length === 0) return null;
  return section(
    "profile",
    t.flames.title,
    t.flames.lead,
    legend([
      ["flame-user", t.flames.programs],
      ["flame-kernel", t.flames.kernel],
      ["flame-found", t.flames.found],
    ]),
    data.flames.map((flame, i) => (i === 0 ? host(flame) : h("details", { class: "part" }, h("summary", {}, flame.host), host(flame)))),
  );
}

function host(flame: FlameView): HTMLElement {
  const root = tree(flame);
  const graph = drawn(flame, root);
  return h(
    "div",
    { class: "part flame" },
    h("h3", {}, flame.host, h("small", {}, ` ${t.flames.samples(flame.samples, flame.samples_per_s)}`)),
    graph,
    hottest(flame),
  );
}

/** The stacks, with common beginnings put together. */
function tree(flame: FlameView): Frame {
  const root: Frame = { name: "all", kernel: false, samples: flame.samples, parent: null, depth: 0, calls: new Map() };
  for (const stack of flame.stacks) {
    let frame = root;
    for (const number of stack.frames) {
      let next = frame.calls.get(number);
      if (!next) {
        next = { ...named(flame.frames[number] ?? ""), samples: 0, parent: frame, depth: frame.depth + 1, calls: new Map() };
        frame.calls.set(number, next);
      }
      next.samples += stack.samples;
      frame = next;
    }
  }
  return root;
}

function named(text: string): { name: string; kernel: boolean } {
  const kernel = text.endsWith(KERNEL);
  return { name: kernel ? text.slice(0, -KERNEL.length) : text, kernel };
}

/** The graph with its search field and the line that says what is under the pointer. */
function drawn(flame: FlameView, root: Frame): HTMLElement {
  let shown = root;
  let pattern = "";
  let width = 0;
  let deepest = 0;
  const frames = s("g");
  const said = h("p", { class: "flame-said" });
  const field = h("input", { type: "search", placeholder: t.flames.find, "aria-label": t.flames.findOf(flame.host) }) as HTMLInputElement;
  const back = h("button", { type: "button", hidden: "" }, t.flames.all) as HTMLButtonElement;
  const matches = (frame: Frame) => pattern !== "" && frame.name.toLowerCase().includes(pattern);
  const share = (frame: Frame) => t.flames.share(frame.name, percent(frame.samples / root.samples), frame.samples, root.samples);
  const say = (text: string) => said.replaceChildren(text || "\u00a0");

  const zoom = (frame: Frame) => {
    shown = frame;
    back.hidden = frame === root;
    paint();
    say(frame === root ? "" : share(frame));
  };
  const one = (frame: Frame, x: number, w: number): SVGElement => {
    const kind = matches(frame) ? "flame-found" : frame.kernel ? "flame-kernel" : "flame-user";
    const top = frame.depth * ROW;
    const rect = s("rect", { class: kind, x: x.toFixed(1), y: top, width: Math.max(w - 0.5, 0.3).toFixed(1), height: ROW - 1 });
    const letters = Math.floor((w - 6) / LETTER_PX);
    const name = frame.name.length > letters ? `${frame.name.slice(0, Math.max(letters - 1, 1))}\u2026` : frame.name;
    const text = w >= TEXT_PX ? s("text", { class: "inside", x: (x + 3).toFixed(1), y: top + 12 }, name) : null;
    const group = s("g", { class: "flame-frame" }, s("title", {}, share(frame)), rect, text);
    group.addEventListener("click", () => zoom(frame));
    group.addEventListener("pointerenter", () => say(share(frame)));
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
  field.addEventListener("input", find);
  back.addEventListener("click", () => zoom(root));
  say("");
  const label = t.flames.label(flame.host);
  const graph = figure(label, (room) => {
    width = room;
    paint();
    return { height: height(), parts: [frames] };
  });
  graph.addEventListener("pointerleave", () => say(shown === root ? "" : share(shown)));
  return h("div", {}, h("div", { class: "flame-tools" }, field, back), said, graph);
}

/** Samples of the outermost frames that match; what they call is theirs. */
function found(frame: Frame, matches: (frame: Frame) => boolean): number {
  if (frame.parent && matches(frame)) return frame.samples;
  return [...frame.calls.values()].reduce((sum, call) => sum + found(call, matches), 0);
}

/** Functions with the most CPU time of their own, and with what they call. */
function hottest(flame: FlameView): HTMLElement {
  const own = new Map<number, number>();
  const total = new Map<number, number>();
  const add = (to: Map<number, number>, frame: number, samples: number) => to.set(frame, (to.get(frame) ?? 0) + samples);
  for (const { frames, samples } of flame.stacks) {
    const leaf = frames[frames.length - 1];
    if (leaf !== undefined) add(own, leaf, samples);
    for (const frame of new Set(frames)) add(total, frame, samples);
  }
  const rows = [...own].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, HOTTEST);
  const cells = rows.map(([number, samples]) => {
    const { name, kernel } = named(flame.frames[number] ?? "");
    return [name, kernel ? t.flames.kernel : t.flames.program, percent(samples / flame.samples), percent((total.get(number) ?? 0) / flame.samples)];
  });
  return table(t.flames.hottest(flame.host), [t.flames.function, t.flames.part, `>${t.flames.own}`, `>${t.flames.total}`], cells);
}
