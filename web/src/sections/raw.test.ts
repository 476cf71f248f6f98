import { expect, test } from "vitest";
import { differing } from "./raw";

const host = (name: string, facts: Record<string, string>) => ({ host: name, facts: Object.entries(facts).map(([name, value]) => ({ name, value })) });

test("hosts differ in facts that both have with other values", () => {
  const hosts = [host("lb", { kernel: "6.1", "nginx.version": "1.22", only: "x" }), host("s1", { kernel: "6.1", "nginx.version": "1.18" }), host("s2", { kernel: "6.1" })];
  expect(differing(hosts)).toEqual([{ name: "nginx.version", values: ["1.22", "1.18", ""] }]);
  expect(differing([])).toEqual([]);
});
