// CPU profiles as numbers: stacks put together to a tree, functions added up, what stands around one, and how far a share moved.
// It draws nothing.

import type { FlameStack, FlameView } from "./generated/types";

const KERNEL = "_[k]";

/** A frame of the flame graph. */
export interface Frame {
  /** Its function, as a number of `FlameView.frames`; -1 for all of the host. */
  number: number;
  name: string;
  kernel: boolean;
  samples: number;
  /** Samples of the run that the profile is held against. */
  before: number;
  parent: Frame | null;
  depth: number;
  calls: Map<number, Frame>;
}

export function named(text: string): { name: string; kernel: boolean } {
  const kernel = text.endsWith(KERNEL);
  return { name: kernel ? text.slice(0, -KERNEL.length) : text, kernel };
}

/** The stacks, with common beginnings put together; frames that are only in the run before have no samples of their own. */
export function tree(flame: FlameView): Frame {
  const root: Frame = { number: -1, name: "all", kernel: false, samples: flame.samples, before: flame.before?.samples ?? 0, parent: null, depth: 0, calls: new Map() };
  const grow = (stacks: FlameStack[], of: "samples" | "before") => {
    for (const stack of stacks) {
      let frame = root;
      for (const number of stack.frames) {
        let next = frame.calls.get(number);
        if (!next) {
          next = { number, ...named(flame.frames[number] ?? ""), samples: 0, before: 0, parent: frame, depth: frame.depth + 1, calls: new Map() };
          frame.calls.set(number, next);
        }
        next[of] += stack.samples;
        frame = next;
      }
    }
  };
  grow(flame.stacks, "samples");
  grow(flame.before?.stacks ?? [], "before");
  return root;
}

/** The shares of a frame now and before, of all samples of their run. */
export function shares(flame: FlameView, frame: Frame): { now: number; before: number } {
  return { now: frame.samples / Math.max(flame.samples, 1), before: frame.before / Math.max(flame.before?.samples ?? 1, 1) };
}

/** Borders of the steps of a difference, in percentage points. A guess: what a reader calls hardly, somewhat and much. */
export const STEPS = [0.2, 1, 5];

/** Which step a share that moved is in: 0 when it stayed, up to 3 for more, down to -3 for less. */
export function step(now: number, before: number): number {
  // A billionth less, so that a share that moved by just the border is beyond it.
  const points = Math.abs(now - before) * 100 + 1e-9;
  return STEPS.filter((border) => points >= border).length * (now < before ? -1 : 1) || 0;
}

/** A function with its samples. */
export interface Counted {
  number: number;
  own: number;
  total: number;
}

/** Functions by the samples of their own. */
export function hottest(flame: FlameView): Counted[] {
  const seen = new Map<number, Counted>();
  const of = (number: number) => {
    const counted = seen.get(number) ?? { number, own: 0, total: 0 };
    seen.set(number, counted);
    return counted;
  };
  for (const { frames, samples } of flame.stacks) {
    const leaf = frames[frames.length - 1];
    if (leaf !== undefined) of(leaf).own += samples;
    for (const number of new Set(frames)) of(number).total += samples;
  }
  return [...seen.values()].filter((f) => f.own > 0).sort((a, b) => b.own - a.own || a.number - b.number);
}

/** A caller of a function, or what it calls. */
export interface Neighbour {
  /** None for all that are too small to be shown alone. */
  number: number | null;
  samples: number;
}

/** What stands around a function in the stacks. */
export interface Around {
  total: number;
  own: number;
  callers: Neighbour[];
  callees: Neighbour[];
}

/** Neighbours that are shown alone on each side. A guess: about what fits a drawing that is no higher than it is wide. */
const SHOWN = 8;

/** Who calls a function and what it calls. Of calls to itself the outermost counts. */
export function around(flame: FlameView, number: number): Around {
  const [callers, callees] = [new Map<number, number>(), new Map<number, number>()];
  const add = (to: Map<number, number>, of: number | undefined, samples: number) => of !== undefined && to.set(of, (to.get(of) ?? 0) + samples);
  let [total, own] = [0, 0];
  for (const { frames, samples } of flame.stacks) {
    const at = frames.indexOf(number);
    if (at < 0) continue;
    total += samples;
    add(callers, frames[at - 1], samples);
    if (at === frames.length - 1) own += samples;
    else add(callees, frames[at + 1], samples);
  }
  return { total, own, callers: greatest(callers), callees: greatest(callees) };
}

function greatest(samples: Map<number, number>): Neighbour[] {
  const all = [...samples].map(([number, n]) => ({ number, samples: n })).sort((a, b) => b.samples - a.samples || a.number - b.number);
  const rest = all.slice(SHOWN).reduce((sum, n) => sum + n.samples, 0);
  return rest > 0 ? [...all.slice(0, SHOWN), { number: null, samples: rest }] : all;
}
