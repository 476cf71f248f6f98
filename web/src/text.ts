// The language of the page. All words of the page stand in text/en.ts, and in the same shape in the files beside it. What the
// data says stays as it is, but for the names of causes: they come in English, and a language may have its own.

import { en } from "./text/en";
import { zh } from "./text/zh";
import { causes } from "./text/zh_causes";

export type Text = typeof en;

/** Title and meaning of causes, by id. */
export type Causes = Record<string, readonly [title: string, meaning: string]>;

export const LANGUAGES = { en: { name: "English", tag: "en", text: en, causes: {} as Causes }, zh: { name: "\u4e2d\u6587", tag: "zh-Hans", text: zh, causes } };
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

/** The first sentence, and those after it. */
export function inTwo(text: string): [string, string] {
  const end = text.search(/[.!?] \p{Lu}/u) + 1;
  return end > 0 ? [text.slice(0, end), text.slice(end + 1)] : [text, ""];
}
