// Throughput trial by trial, while a run goes on: whatever is measured, each trial is a point.

import { axes, figure } from "../chart";
import { s, section, type Child } from "../dom";
import type { TrialRow } from "../generated/types";
import { rate, short } from "../number";
import { linear } from "../scale";
import { t } from "../text";
import { words } from "./text";

export function trials(rows: TrialRow[]): HTMLElement | null {
  const known = rows.filter((row): row is TrialRow & { good_per_s: number } => row.good_per_s !== null);
  if (known.length === 0) return null;
  const w = words().run;
  const title = (row: TrialRow) => w.trial(row.id, row.purpose, rate(row.good_per_s));
  const label = `${w.trials}: ${known.map((row) => `${row.id}: ${rate(row.good_per_s)}/s`).join("; ")}`;
  const drawing = figure(label, (width) => {
    const frame = { left: 62, right: width - 16, top: 34, bottom: 210 };
    const x = linear(0, Math.max(4, known.length), frame.left, frame.right, width < 480 ? 4 : 8);
    const y = linear(0, Math.max(...known.map((row) => row.good_per_s), 1), frame.bottom, frame.top);
    const whole = Object.assign((v: number) => x(v), { ticks: x.ticks.filter(Number.isInteger), domain: x.domain });
    const parts: Child[] = [
      axes(frame, whole, y, String, (v) => short(v, "rate"), { x: t.raw.inOrder, y: t.words.goodPerSecond }),
      known.map((row, i) => s("circle", { class: `dot${row.note ? " doubtful" : ""}`, cx: x(i + 0.5), cy: y(row.good_per_s), r: 4.5 }, s("title", {}, title(row)))),
    ];
    return { height: frame.bottom + 42, parts };
  });
  return section("trials", w.trials, null, drawing);
}
