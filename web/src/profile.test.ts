import { expect, test } from "vitest";
import type { FlameView } from "./generated/types";
import { around, hottest, shares, step, tree } from "./profile";

const [nginx, main, log, write, open, lock] = [0, 1, 2, 3, 4, 5];

const flame: FlameView = {
  host: "lb",
  samples: 100,
  samples_per_s: 997,
  frames: ["nginx", "main", "log", "write_[k]", "open", "lock_[k]"],
  stacks: [
    { frames: [nginx, main, open, write], samples: 60 },
    { frames: [nginx, main, log, write, lock], samples: 10 },
    { frames: [nginx, main], samples: 30 },
  ],
  before: {
    run: "old",
    samples: 200,
    stacks: [
      { frames: [nginx, main, log, write, lock], samples: 120 },
      { frames: [nginx, main, log, lock], samples: 80 },
    ],
    moved: [],
    gone: [],
  },
};

test("a frame knows its share now and before, also when it is gone or new", () => {
  const frame = tree(flame).calls.get(nginx)!.calls.get(main)!;
  const logs = frame.calls.get(log)!;
  expect(shares(flame, frame)).toEqual({ now: 1, before: 1 });
  expect(shares(flame, logs)).toEqual({ now: 0.1, before: 1 });
  expect(shares(flame, logs.calls.get(lock)!)).toEqual({ now: 0, before: 0.4 });
  expect(shares(flame, frame.calls.get(open)!)).toEqual({ now: 0.6, before: 0 });
  expect([logs.name, logs.calls.get(write)!.name, logs.calls.get(write)!.kernel]).toEqual(["log", "write", true]);
});

test("a profile without a run before has nothing to be held against", () => {
  expect(shares(flame, tree({ ...flame, before: null }).calls.get(nginx)!)).toEqual({ now: 1, before: 0 });
});

test("a share moves by steps of percentage points", () => {
  expect([step(0.5, 0.5), step(0.5, 0.4985), step(0.5, 0.498), step(0.51, 0.5), step(0.6, 0.5)]).toEqual([0, 0, 1, 2, 3]);
  expect([step(0.4985, 0.5), step(0.497, 0.5), step(0.48, 0.5), step(0, 0.05)]).toEqual([0, -1, -2, -3]);
});

test("functions are added up over all stacks", () => {
  expect(hottest(flame)).toEqual([
    { number: write, own: 60, total: 70 },
    { number: main, own: 30, total: 100 },
    { number: lock, own: 10, total: 10 },
  ]);
});

test("a function stands between its callers and what it calls", () => {
  expect(around(flame, write)).toEqual({
    total: 70,
    own: 60,
    callers: [
      { number: open, samples: 60 },
      { number: log, samples: 10 },
    ],
    callees: [{ number: lock, samples: 10 }],
  });
  expect(around(flame, nginx).callers).toEqual([]);
  const recursive = { ...flame, stacks: [{ frames: [nginx, main, open, main], samples: 5 }] };
  expect(around(recursive, main)).toEqual({ total: 5, own: 0, callers: [{ number: nginx, samples: 5 }], callees: [{ number: open, samples: 5 }] });
});

test("many callers are put together from the ninth on", () => {
  const stacks = Array.from({ length: 12 }, (_, i) => ({ frames: [i + 10, write], samples: 100 - i }));
  const { callers } = around({ ...flame, stacks }, write);
  expect([callers.length, callers[0]!.samples, callers[8]]).toEqual([9, 100, { number: null, samples: 92 + 91 + 90 + 89 }]);
});
