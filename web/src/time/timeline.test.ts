import { expect, test } from "vitest";
import type { BandKind, BandView } from "../generated/types";
import { Timeline, bandAt, groups } from "./timeline";

const band = (trial: number, kind: BandKind, from_s: number, to_s: number): BandView => ({ trial, kind, label: `${kind} ${trial}`, from_s, to_s });

test("neighbours of one kind are named once, levels each for itself", () => {
  const bands = [band(0, "warmup", 0, 2), band(1, "level", 3, 8), band(2, "level", 9, 14), band(3, "curve", 15, 17), band(4, "curve", 18, 20), band(5, "warmup", 21, 22)];
  expect(groups(bands).map((group) => group.map(({ trial }) => trial))).toEqual([[0], [1], [2], [3, 4], [5]]);
  expect(groups([])).toEqual([]);
});

test("a moment between trials has no name", () => {
  const bands = [band(0, "warmup", 0, 2), band(1, "level", 3, 8)];
  expect([bandAt(bands, 1), bandAt(bands, 2.5), bandAt(bands, 8)]).toEqual([" \u00b7 warmup 0", "", " \u00b7 level 1"]);
});

test("a stretch keeps its length within the run, and all of it is none", () => {
  const told: unknown[] = [];
  const timeline = new Timeline([0, 100], [], (shown) => told.push(shown));
  timeline.zoom(20, 30);
  timeline.zoom(-50, 40);
  timeline.zoom(99.99, 100);
  timeline.zoom();
  expect(told).toEqual([[20, 30], [0, 90], [99.95, 100], null]);
});
