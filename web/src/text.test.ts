// The compiler sees to it that no language lacks a text; this sees to it that none has one too many or an empty one.

import { readFileSync, readdirSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import { LANGUAGES, cause, inTwo, said, speak, t } from "./text";

type Tree = Record<string, unknown>;

function keys(texts: Tree, path = ""): string[] {
  return Object.entries(texts)
    .flatMap(([key, value]) => (typeof value === "object" && value !== null ? keys(value as Tree, `${path}${key}.`) : [`${path}${key}`]))
    .sort();
}

afterEach(() => speak("en", null));

test("every language has the same texts", () => {
  const expected = keys(LANGUAGES.en.text);
  for (const { text } of Object.values(LANGUAGES)) expect(keys(text)).toEqual(expected);
});

test("no text is empty", () => {
  const texts = (tree: Tree): unknown[] => Object.values(tree).flatMap((value) => (typeof value === "object" && value !== null ? texts(value as Tree) : [value]));
  for (const { text } of Object.values(LANGUAGES)) for (const value of texts(text)) expect(value).not.toBe("");
});

test("the language that is spoken is the one that is read", () => {
  speak("zh", null);
  expect(t.curve.title).toBe(LANGUAGES.zh.text.curve.title);
  expect(t.curve.title).not.toBe(LANGUAGES.en.text.curve.title);
});

test("a language that names causes names them all", () => {
  const pages = readdirSync("../docs/causes").map((page) => page.replace(/\.md$/, ""));
  const expected = [...pages.filter((page) => page !== "README"), "inconclusive", "none"].sort();
  for (const { causes } of Object.values(LANGUAGES)) {
    const named = Object.keys(causes).sort();
    if (named.length > 0) expect(named).toEqual(expected);
  }
});

test("a language that names metrics names them all", () => {
  const page = readFileSync("../docs/metrics.md", "utf8");
  const titles = [...page.matchAll(/^\| `[^`]+` \| ([^|]+) \|/gm)].map((row) => row[1] ?? "");
  expect(titles.length).toBeGreaterThan(200);
  for (const { names } of Object.values(LANGUAGES)) {
    if (Object.keys(names).length > 0) expect(titles.filter((title) => !names[title])).toEqual([]);
  }
});

test("a name is said in the language that is spoken, a derived one by its parts, and a new one as it comes", () => {
  expect(said("context switches per request")).toBe("context switches per request");
  speak("zh", null);
  expect(said("context switches")).toBe("\u4e0a\u4e0b\u6587\u5207\u6362");
  expect(said("context switches per request")).toBe("\u4e0a\u4e0b\u6587\u5207\u6362 / \u8bf7\u6c42");
  expect(said("segments sent again / data segments sent")).not.toMatch(/[a-z]/);
  expect(said("hats per request")).toBe("hats per request");
});

test("a cause is named in the language that is spoken, and a new one as the data does", () => {
  expect(cause("packet-loss", "Packets are lost", "x")).toEqual(["Packets are lost", "x"]);
  speak("zh", null);
  expect(cause("packet-loss", "Packets are lost", "x")[0]).toBe("\u94fe\u8def\u4e0a\u4e22\u5305");
  expect(cause("of-tomorrow", "Of tomorrow", "x")).toEqual(["Of tomorrow", "x"]);
});

test("a result is its first sentence", () => {
  expect(inTwo("s carries 726 requests per second, and 671 within p99<=20ms, errors<=0.1%. The budget ended.")).toEqual([
    "s carries 726 requests per second, and 671 within p99<=20ms, errors<=0.1%.",
    "The budget ended.",
  ]);
  expect(inTwo("Workers run out of connections, at lb.")).toEqual(["Workers run out of connections, at lb.", ""]);
  expect(inTwo("p99 is 1.5 ms. \u00c4nderungen.")).toEqual(["p99 is 1.5 ms.", "\u00c4nderungen."]);
  expect(inTwo("")).toEqual(["", ""]);
});
