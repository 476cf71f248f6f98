// What the charts over time share: the stretch that is shown, the moment under the cursor, when load was sent. Draws nothing.

import type { BandView } from "../generated/types";
import type { TimeChart } from "./chart";

/** All charts that are drawn together: they share the cursor and the time that is shown. */
export class Timeline {
  readonly charts: TimeChart[] = [];
  shown: [number, number];
  private isPointing = false;

  /** `onZoom` gets the stretch that is shown; none when it is all of the time. */
  constructor(
    readonly whole: [number, number],
    readonly bands: BandView[],
    private readonly onZoom: (shown: [number, number] | null) => void,
  ) {
    this.shown = whole;
  }

  /** Shows a stretch of time in every chart; without one, all of it. */
  zoom(from = this.whole[0], to = this.whole[1]): void {
    const [first, last] = this.whole;
    const length = Math.max(to - from, 0.05);
    this.shown = [Math.max(first, Math.min(from, last - length)), Math.min(last, Math.max(to, first + length))];
    for (const chart of this.charts) chart.showTime();
    this.onZoom(this.shown[0] === first && this.shown[1] === last ? null : this.shown);
  }

  /** Puts the cursor of every chart at a moment; `of` is the chart that has it there already. */
  point(at: number | null, of?: TimeChart): void {
    // Each of them tells that its cursor moved.
    if (this.isPointing) return;
    this.isPointing = true;
    for (const chart of this.charts) if (chart !== of) chart.pointAt(at);
    this.isPointing = false;
  }

  /** Draws again what is drawn: after a change of colours. */
  repaint(): void {
    for (const chart of this.charts) chart.repaint();
  }

  /** Draws every chart that is not folded away, as wide as paper is. */
  print(width: number): void {
    for (const chart of this.charts) chart.draw(width);
  }
}

/** Neighbours of one kind; levels stand alone, because each has its own name. */
export function groups(bands: BandView[]): BandView[][] {
  const out: BandView[][] = [];
  for (const band of bands) {
    const last = out[out.length - 1];
    if (last && last[0]!.kind === band.kind && band.kind !== "level") last.push(band);
    else out.push([band]);
  }
  return out;
}

/** What load was sent at a moment, to stand behind it; empty when none was. */
export function bandAt(bands: BandView[], at: number): string {
  const band = bands.find((band) => band.from_s <= at && at <= band.to_s);
  return band ? ` \u00b7 ${band.label}` : "";
}
