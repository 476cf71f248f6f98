// The course of a run as a small line.

import { h, s } from "../dom";
import { rate } from "../number";
import { words } from "./text";

const WIDTH = 120;
const HEIGHT = 30;

/** Points of the line, from the left to the right; the least value stands at the bottom unless all are alike. */
export function sparkPoints(values: number[]): [number, number][] {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const span = most - least;
  const step = values.length > 1 ? (WIDTH - 4) / (values.length - 1) : 0;
  return values.map((value, i) => [2 + i * step, span === 0 ? HEIGHT / 2 : HEIGHT - 3 - ((value - least) / span) * (HEIGHT - 6)]);
}

/** Empty where there is no course yet. */
export function spark(values: number[]): HTMLElement {
  if (values.length < 2) return h("span", { class: "spark" });
  const points = sparkPoints(values);
  const last = points[points.length - 1]!;
  const label = words().runs.course(rate(values[0]!), rate(values[values.length - 1]!));
  const d = points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
  return h(
    "span",
    { class: "spark" },
    s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, s("path", { class: "line", d }), s("circle", { class: "dot", cx: last[0], cy: last[1], r: 2.6 })),
  );
}
