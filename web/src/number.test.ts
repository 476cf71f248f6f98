// Numbers are written as prony's own texts write them (crates/prony-report/src/number.rs).

import { expect, test } from "vitest";
import { NONE, change, clock, inUnit, micros, onAxis, percent, points, rate } from "./number";

test("quantities read as in the texts of prony", () => {
  expect([micros(250), micros(1234), micros(2.5e6), micros(0.5), micros(null)]).toEqual(["250 us", "1.23 ms", "2.50 s", "0.50 us", NONE]);
  expect([rate(83.44), rate(24_817.3), rate(0)]).toEqual(["83.4", "24,817", "0"]);
  expect([percent(0.123), percent(0.0004), percent(1)]).toEqual(["12.3 %", "0.04 %", "100 %"]);
  expect([change(0.382), change(-0.0041), change(0.0001)]).toEqual(["+38.2 %", "-0.4 %", "0.0 %"]);
});

test("a share moves by points", () => {
  expect([points(0.0412), points(-0.259), points(0.0001), points(-0.0001)]).toEqual(["+4.1", "-25.9", "0.0", "0.0"]);
});

test("values under the cursor have their unit", () => {
  expect(inUnit(0.5, "share")).toBe("50 %");
  expect(inUnit(1_536, "bytes_per_s")).toBe("1.50 KiB/s");
  expect(inUnit(53_280.4, "per_s")).toBe("53,280/s");
  expect(inUnit(1.25, "cpus")).toBe("1.3");
  expect(inUnit(12, "count")).toBe("12");
});

test("axes are short", () => {
  expect([onAxis(20_000, "per_s"), onAxis(2_500_000, "count"), onAxis(0, "per_s")]).toEqual(["20k", "2.5M", "0"]);
  expect([onAxis(0.2, "share"), onAxis(1_048_576, "bytes_per_s"), onAxis(2_000, "us")]).toEqual(["20 %", "1 MiB", "2 ms"]);
});

test("moments are seconds, then minutes and hours", () => {
  expect([clock(0), clock(2.5), clock(90), clock(3_750)]).toEqual(["0 s", "2.5 s", "1:30", "1:02:30"]);
});
