// The compiler sees to it that no language lacks a text; this sees to it that none has one too many or an empty one.

import { readFileSync, readdirSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import { LANGUAGES, cause, inTwo, result, said, speak, t, told } from "./text";

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

test("sentences are said by their parts, and what has no translation stays", () => {
  const summary = "lb asks its servers 1.50 times for each request: it explains 59 % of the limit; mending it is predicted to bring 142 % more. 24.9 % of the requests fail, most with status 503.";
  expect(told(summary)).toBe(summary);
  speak("zh", null);
  expect(told(summary)).toBe("lb \u6bcf\u4e2a\u8bf7\u6c42\u8be2\u95ee\u670d\u52a1\u5668 1.50 \u6b21\uff1a\u5360\u74f6\u9888\u7684 59 %\uff1b\u4fee\u590d\u540e\u9884\u8ba1\u63d0\u9ad8 142 %\u300224.9 % \u7684\u8bf7\u6c42\u5931\u8d25\uff0c\u591a\u6570\u72b6\u6001\u7801\u4e3a 503\u3002");
  expect(told("s1 waits: with s2 it explains 89 % of the limit.")).toBe("s1 waits：与 s2 一起占瓶颈的 89 %。");
  expect(told("s1 waits: it explains 89 % of the time that requests take; mending it is predicted to change the mean latency by -89 %.")).toBe("s1 waits：占请求所需时间的 89 %；修复后预计平均延迟变化 -89 %。");
  expect(told("the limit is blue; 3 % of the requests fail")).toBe("the limit is blue\uff1b3 % \u7684\u8bf7\u6c42\u5931\u8d25");
  expect(told("Something else.")).toBe("Something else.");
  expect(told("grounded: 3 of 4 tests agree")).toBe("\u6709\u636e\uff1a4 \u9879\u68c0\u9a8c\u4e2d 3 \u9879\u4e00\u81f4");
});

test("the sentence of a run is that of its cause where the language names it", () => {
  const carries = "s carries 726 requests per second, and 671 within p99<=20ms, errors<=0.1%. The budget ended before the interval was as narrow as asked for.";
  expect(result("Rate limited, at lb.", "rate-limited", "lb")).toBe("Rate limited, at lb.");
  expect(result(carries, "", "")).toBe(carries);
  speak("zh", null);
  expect(result("Rate limited, at lb.", "rate-limited", "lb")).toBe(`lb\uff1a${LANGUAGES.zh.causes["rate-limited"]?.[0]}\u3002`);
  const [first, more] = inTwo(result(carries, "", ""));
  expect(first).toBe("s \u6bcf\u79d2\u627f\u8f7d 726 \u4e2a\u8bf7\u6c42\uff0c\u6ee1\u8db3 p99<=20ms, errors<=0.1% \u65f6\u4e3a 671 \u4e2a\u3002");
  expect(more).toMatch(/^\p{Script=Han}.*\u3002$/u);
});

test("a sentence of a language has a place for all that differs", () => {
  for (const { phrases } of Object.values(LANGUAGES)) {
    for (const [english, own] of phrases) {
      const places = english.split("{}").length - 1;
      const used = [...own.matchAll(/\{(\d*)\}/g)].map(([, number], i) => (number ? Number(number) : i + 1));
      expect(used.sort((a, b) => a - b), english).toEqual(Array.from({ length: places }, (_, i) => i + 1));
    }
  }
});

test("what is translated is still said", () => {
  const folder = "../crates";
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".rs"));
  const code = files.map((file) => readFileSync(`${folder}/${file}`, "utf8")).join("\n").replace(/\\\n\s*/g, "").replace(/\{[a-z_]*:?[.\d]*\}/g, "{}");
  const stale: string[] = [];
  for (const { phrases } of Object.values(LANGUAGES)) {
    for (const [english] of phrases) {
      const fixed = english.split(/\{\}|[:;,.()] /).map((part) => part.replace(/^[\s:;,.()%]+|[\s:;,.()%]+$/g, "")).filter((part) => part.length >= 12);
      // The words at both ends may come from a variable.
      const inner = (part: string, first: number, last: number) => part.split(" ").slice(first, last === 0 ? undefined : -last).join(" ");
      const ends = [0, 1, 2, 3, 4, 5];
      const isSaid = (part: string) => ends.some((first) => ends.some((last) => inner(part, first, last).length >= 8 && code.includes(inner(part, first, last))));
      stale.push(...fixed.filter((part) => !isSaid(part)).map((part) => `"${part}" of "${english}"`));
    }
  }
  expect(stale).toEqual([]);
});
