import { expect, test } from "vitest";
import { CHARTS, chartOf } from "./over_time";
import { LANGUAGES } from "./text";

test("a fact leads to the chart that shows it", () => {
  expect(chartOf("cpu.softirq share")).toBe("cpu");
  expect(chartOf("cpu.context_switches / request")).toBe("switches");
  expect(chartOf("conn.in_unread")).toBe("queues");
  expect(chartOf("conn.in_busy")).toBe("connections");
  expect(chartOf("overlay packets / packets below")).toBe(null);
});

test("no line of the table hides a later one", () => {
  CHARTS.forEach(([beginning, kind], i) => {
    expect(CHARTS.findIndex(([earlier]) => beginning.startsWith(earlier)), beginning).toBe(i);
    expect(LANGUAGES.en.text.charts).toHaveProperty(kind);
  });
});
