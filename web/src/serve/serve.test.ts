// What the pages of `prony serve` work out without drawing.

import { expect, test } from "vitest";
import type { HistoryLine } from "../generated/types";
import { path, runPath } from "./ask";
import { sparkPoints } from "./spark";
import { stretches } from "./stretches";
import { WORDS } from "./text";

type Tree = Record<string, unknown>;

const texts = (tree: Tree, at = ""): [string, unknown][] =>
  Object.entries(tree).flatMap(([key, value]) => (typeof value === "object" && value !== null ? texts(value as Tree, `${at}${key}.`) : [[`${at}${key}`, value] as [string, unknown]]));

test("every language has the same words, and none is empty", () => {
  const expected = texts(WORDS.en).map(([key]) => key).sort();
  for (const words of Object.values(WORDS)) {
    expect(texts(words).map(([key]) => key).sort()).toEqual(expected);
    for (const [, text] of texts(words)) expect(text).not.toBe("");
  }
});

test("a path leaves out what is empty and escapes the rest", () => {
  expect(path("/api/runs", { q: "a b&c", tag: "", limit: 50 })).toBe("/api/runs?q=a+b%26c&limit=50");
  expect(path("/", { q: "" })).toBe("/");
  expect(runPath("../a b")).toBe("/runs/..%2Fa%20b");
});

test("a small line goes from the left to the right, and is flat when all is alike", () => {
  const points = sparkPoints([10, 30, 20]);
  expect(points.map(([x]) => Math.round(x))).toEqual([2, 60, 118]);
  expect(points[1]![1]).toBeLessThan(points[2]![1]);
  expect(points[2]![1]).toBeLessThan(points[0]![1]);
  expect(new Set(sparkPoints([5, 5, 5]).map(([, y]) => y)).size).toBe(1);
});

test("a history has a stretch before and after each change", () => {
  const line = (changes: HistoryLine["changes"]): HistoryLine => ({ label: "l", metric: "rps", title: "t", unit: "per_s", runs: ["a", "b", "c", "d"], values: [4, 4, 2, 3], changes });
  const change = (index: number, from: number, to: number, worse: boolean) => ({ run: "r", index, from, to, text: "", worse });
  expect(stretches(line([]))).toEqual([]);
  expect(stretches(line([change(2, 4, 2, true), change(3, 2, 3, false)]))).toEqual([
    { from: 0, to: 2, mean: 4, tone: "plain" },
    { from: 2, to: 3, mean: 2, tone: "bad" },
    { from: 3, to: 4, mean: 3, tone: "good" },
  ]);
});
