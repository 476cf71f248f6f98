// The language of the page. All words of the page stand in text/en.ts, and in the same shape in the files beside it; what the
// data says stays as it is.

import { en } from "./text/en";
import { zh } from "./text/zh";

export type Text = typeof en;

export const LANGUAGES = { en: { name: "English", tag: "en", text: en }, zh: { name: "\u4e2d\u6587", tag: "zh-Hans", text: zh } };
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
