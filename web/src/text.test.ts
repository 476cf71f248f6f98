// The compiler sees to it that no language lacks a text; this sees to it that none has one too many or an empty one.

import { afterEach, expect, test } from "vitest";
import { LANGUAGES, speak, t } from "./text";

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
