// The language of the page. All words of the page stand in text/en.ts, and in the same shape in the files beside it. What the
// data says stays as it is, but for names: of causes, metrics, steps. They come in English, and a language may have its own.

import { en } from "./text/en";
import { zh } from "./text/zh";
import { causes } from "./text/zh_causes";
import { names } from "./text/zh_names";

export type Text = typeof en;

/** Title and meaning of causes, by id. */
export type Causes = Record<string, readonly [title: string, meaning: string]>;

/** What else has a name, by the English one. */
export type Names = Record<string, string>;

export const LANGUAGES = { en: { name: "English", tag: "en", text: en, causes: {} as Causes, names: {} as Names }, zh: { name: "\u4e2d\u6587", tag: "zh-Hans", text: zh, causes, names } };
export type Language = keyof typeof LANGUAGES;

/** Words in the language that is shown; read it when something is drawn, never before. */
export let t: Text = en;

/** Which language that is, for words that stand elsewhere. */
export let spoken: Language = "en";

/** `page` is told too, so that browsers and screen readers know. */
export function speak(language: Language, page: HTMLElement | null): void {
  t = LANGUAGES[language].text;
  spoken = language;
  if (page) page.lang = LANGUAGES[language].tag;
}

/** Title and meaning of a cause; those of the data where the language has none. */
export function cause(id: string, title: string, meaning: string): readonly [title: string, meaning: string] {
  return LANGUAGES[spoken].causes[id] ?? [title, meaning];
}

/** A name that the data says; as it is where the language has no other. What is derived is said by its parts: `a per b`, `a / b`. */
export function said(name: string): string {
  const { names } = LANGUAGES[spoken];
  const parts = name.split(/ (?:per|\/) /);
  return names[name] ?? (parts.length === 2 && parts.every((part) => names[part]) ? parts.map((part) => names[part]).join(" / ") : name);
}

/** The first sentence, and those after it. */
export function inTwo(text: string): [string, string] {
  const end = text.search(/[.!?] \p{Lu}/u) + 1;
  return end > 0 ? [text.slice(0, end), text.slice(end + 1)] : [text, ""];
}
