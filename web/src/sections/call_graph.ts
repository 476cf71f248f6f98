// What stands around a function in the CPU samples: its callers on the left, what it calls on the right, as high as their samples.
// A click on one of them goes there; the table below does the same for those who use the keyboard or a screen reader.

import { figure, replaceDrawn } from "../chart";
import { h, s, table, type Child } from "../dom";
import type { FlameView } from "../generated/types";
import { percent } from "../number";
import { around, named, type Around, type Neighbour } from "../profile";
import { saveTables } from "../save";
import { t } from "../text";

/** Height of all samples of the function. */
const ALL_PX = 150;
/** A box holds a line of text, however few its samples. */
const BOX_PX = 19;
const GAP_PX = 5;
const LETTER_PX = 6.6;

/** A box beside the function: a caller, something it calls, or its own work. */
interface Box {
  name: string;
  className: string;
  /** Where a click leads; none for what is no function. */
  number: number | null;
  samples: number;
}

/** The drawing of one function at a time. */
export class CallGraph {
  readonly element: HTMLElement;
  private shown: HTMLElement;

  constructor(
    private readonly flame: FlameView,
    first: number,
  ) {
    this.shown = this.of(first);
    this.element = h("div", { class: "calls" }, this.shown);
  }

  /** Shows another function; `go`: the reader is taken there. */
  show(number: number, go: boolean): void {
    const fresh = this.of(number);
    replaceDrawn(this.shown, fresh);
    this.shown = fresh;
    saveTables(fresh);
    if (go) fresh.querySelector("h4")?.focus();
  }

  private of(number: number): HTMLElement {
    const { flame } = this;
    const seen = around(flame, number);
    const name = nameOf(flame, number);
    const share = (samples: number) => percent(samples / Math.max(flame.samples, 1));
    const label = `${t.flames.around(name)}: ${t.flames.aroundText(share(seen.total), share(seen.own))}`;
    const row = (role: string) => (n: Neighbour) => [
      role,
      n.number === null ? t.flames.others : functionButton(flame, n.number, this),
      n.number === null ? "" : partOf(flame, n.number),
      share(n.samples),
    ];
    return h(
      "div",
      {},
      h("h4", { tabindex: -1 }, t.flames.around(name), " ", h("small", {}, t.flames.aroundText(share(seen.total), share(seen.own)))),
      figure(label, (width) => this.drawing(number, seen, width), h("p", { class: "call-heads" }, t.flames.aroundKeys)),
      h(
        "details",
        {},
        h("summary", {}, t.flames.aroundTable),
        table(t.flames.around(name), [t.flames.role, t.flames.function, t.flames.part, `>${t.flames.ofAll}`], [...seen.callers.map(row(t.flames.caller)), ...seen.callees.map(row(t.flames.callee))]),
      ),
    );
  }

  private drawing(number: number, seen: Around, width: number): { height: number; parts: Child[] } {
    const { flame } = this;
    const box = (n: Neighbour): Box =>
      n.number === null ? { name: t.flames.others, className: "call-rest", number: null, samples: n.samples } : { name: nameOf(flame, n.number), className: classOf(flame, n.number), number: n.number, samples: n.samples };
    const own: Box[] = seen.own > 0 ? [{ name: t.flames.itself, className: "call-rest", number: null, samples: seen.own }] : [];
    const [left, right] = [seen.callers.map(box), [...own, ...seen.callees.map(box)]];
    const px = (samples: number) => (samples / Math.max(seen.total, 1)) * ALL_PX;
    const tall = (boxes: Box[]) => boxes.reduce((sum, b) => sum + Math.max(px(b.samples), BOX_PX) + GAP_PX, -GAP_PX);
    const height = Math.max(tall(left), tall(right), ALL_PX);
    const between = width < 480 ? 22 : 90;
    const wide = (width - 2 * between) / 3;
    const top = (height - ALL_PX) / 2;
    const middle = wide + between;
    const side = (boxes: Box[], x: number, from: number, to: number): Child[] => {
      let y = (height - tall(boxes)) / 2;
      let at = top;
      return boxes.map((b) => {
        const [box, flow] = [Math.max(px(b.samples), BOX_PX), px(b.samples)];
        const parts = [band([from, y + (box - flow) / 2], [to, at], flow), this.box(b, x, y, wide, box, seen.total)];
        y += box + GAP_PX;
        at += flow;
        return parts;
      });
    };
    const self = { name: nameOf(flame, number), className: classOf(flame, number), number: null, samples: seen.total };
    return {
      height,
      parts: [side(left, 0, wide, middle), side(right, middle + wide + between, middle + wide + between, middle + wide), this.box(self, middle, top, wide, ALL_PX, seen.total)],
    };
  }

  /** `total`: what shares in titles are of. */
  private box(box: Box, x: number, y: number, width: number, height: number, total: number): SVGElement {
    const share = percent(box.samples / Math.max(this.flame.samples, 1));
    const room = Math.floor((width - 10) / LETTER_PX);
    const hasShare = room - share.length > 8;
    const letters = hasShare ? room - share.length - 1 : room;
    const name = box.name.length > letters ? `${box.name.slice(0, Math.max(letters - 1, 1))}\u2026` : box.name;
    const text = box.className === "call-rest" ? "on-shift" : "inside";
    const line = y + height / 2 + 4;
    const group = s(
      "g",
      { class: box.number === null ? "call-box" : "call-box call-goes" },
      s("title", {}, `${box.name}: ${t.flames.ofFunction(share, percent(box.samples / Math.max(total, 1)))}`),
      s("rect", { class: box.className, x: x.toFixed(1), y: y.toFixed(1), width: width.toFixed(1), height: height.toFixed(1), rx: 2 }),
      s("text", { class: text, x: (x + 5).toFixed(1), y: line.toFixed(1) }, name),
      hasShare ? s("text", { class: text, x: (x + width - 5).toFixed(1), y: line.toFixed(1), "text-anchor": "end" }, share) : null,
    );
    const { number } = box;
    if (number !== null) group.addEventListener("click", () => this.show(number, false));
    return group;
  }
}

/** A function in a table: a click shows what stands around it. */
export function functionButton(flame: FlameView, number: number, calls: CallGraph): HTMLElement {
  const name = nameOf(flame, number);
  const button = h("button", { type: "button", class: "function", title: t.flames.around(name) }, name);
  button.addEventListener("click", () => calls.show(number, true));
  return button;
}

const nameOf = (flame: FlameView, number: number): string => named(flame.frames[number] ?? "").name;
const isKernel = (flame: FlameView, number: number): boolean => named(flame.frames[number] ?? "").kernel;
const classOf = (flame: FlameView, number: number): string => (isKernel(flame, number) ? "flame-kernel" : "flame-user");
const partOf = (flame: FlameView, number: number): string => (isKernel(flame, number) ? t.flames.kernel : t.flames.program);

/** A band of one thickness between two edges. */
function band([x1, y1]: [number, number], [x2, y2]: [number, number], thick: number): SVGElement {
  const half = (x1 + x2) / 2;
  const at = (x: number, y: number) => `${x.toFixed(1)},${y.toFixed(1)}`;
  const there = `C${at(half, y1)} ${at(half, y2)} ${at(x2, y2)}`;
  const back = `C${at(half, y2 + thick)} ${at(half, y1 + thick)} ${at(x1, y1 + thick)}`;
  return s("path", { class: "call-flow", d: `M${at(x1, y1)}${there}V${(y2 + thick).toFixed(1)}${back}Z` });
}
