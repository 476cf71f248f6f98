import { expect, test } from "vitest";
import { linear, logarithmic } from "./scale";

test("a linear scale is widened to round ticks", () => {
  const scale = linear(0, 54_028, 0, 100);
  expect(scale.ticks).toEqual([0, 20_000, 40_000, 60_000]);
  expect([scale(0), scale(30_000), scale(60_000)]).toEqual([0, 50, 100]);
});

test("equal ends still make a scale", () => {
  const scale = linear(7, 7, 0, 100);
  expect(scale.domain[1]).toBeGreaterThan(scale.domain[0]);
  expect(scale.ticks.every(Number.isFinite)).toBe(true);
});

test("a logarithmic scale has ticks at 1, 2 and 5, and at powers of ten when there are many", () => {
  expect(logarithmic(90, 600, 0, 1).ticks).toEqual([100, 200, 500]);
  expect(logarithmic(0.9, 100_000, 0, 1).ticks).toEqual([1, 10, 100, 1_000, 10_000, 100_000]);
});
