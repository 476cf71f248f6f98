// The stretches of a history between its changes.

import type { HistoryLine } from "../generated/types";

/** Where each begins and ends, and whether it is worse than the one before. */
export function stretches(line: HistoryLine): { from: number; to: number; mean: number; tone: string }[] {
  const [first] = line.changes;
  if (!first) return [];
  const ends = [...line.changes.map((change) => change.index), line.values.length];
  return [{ from: 0, to: first.index, mean: first.from, tone: "plain" }, ...line.changes.map((change, i) => ({ from: change.index, to: ends[i + 1]!, mean: change.to, tone: change.worse ? "bad" : "good" }))];
}
