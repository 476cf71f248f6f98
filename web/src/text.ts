// The language of the page. All words of the page stand in text/en.ts, and in the same shape in the files beside it. What the
// data says comes in English. A language may have its own names, of causes, metrics, steps, and its own sentences; what it has not
// stays as it is.

import { en } from "./text/en";
import { zh } from "./text/zh";
import { causes } from "./text/zh_causes";
import { names } from "./text/zh_names";
import { phrases } from "./text/zh_phrases";

export type Text = typeof en;

/** Title and meaning of causes, by id. */
export type Causes = Record<string, readonly [title: string, meaning: string]>;

/** What else has a name, by the English one. */
export type Names = Record<string, string>;

/** Sentences with places for what differs, by the English ones. */
export type Phrases = readonly (readonly [english: string, own: string])[];

export const LANGUAGES = {
  en: { name: "English", tag: "en", text: en, causes: {} as Causes, names: {} as Names, phrases: [] as Phrases, stop: ".", and: "; " },
  zh: { name: "\u4e2d\u6587", tag: "zh-Hans", text: zh, causes, names, phrases, stop: "\u3002", and: "\uff1b" },
};
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

/** Phrases made ready to be found: those of each language once. */
const ready = new Map<Language, readonly (readonly [RegExp, string])[]>();

function patterns(): readonly (readonly [RegExp, string])[] {
  const known = ready.get(spoken);
  if (known) return known;
  const plain = (text: string) => text.replace(/[.*+?^$()|[\]\\]/g, "\\$&");
  const made = LANGUAGES[spoken].phrases.map(([english, own]) => [new RegExp(`^${plain(english).replaceAll("{}", "(.+?)")}$`, "su"), own] as const);
  ready.set(spoken, made);
  return made;
}

/** What the data says in a sentence or in several: by its parts, as far as the language has them; otherwise as it is. */
export function told(text: string): string {
  if (LANGUAGES[spoken].phrases.length === 0) return text;
  const name = said(text);
  if (name !== text) return name;
  const parts = inParts(text, /(?<=\.) (?=[\p{Lu}\d])/u, " ")?.replace(/\u3002 /g, "\u3002") ?? ended(text) ?? inParts(text, /; /, LANGUAGES[spoken].and);
  if (parts !== null) return parts;
  for (const [pattern, own] of patterns()) {
    const found = pattern.exec(text);
    if (found) return filled(own, found.slice(1).map(told));
  }
  return text;
}

/** Places are filled in their order, or by their numbers. */
function filled(own: string, parts: string[]): string {
  let next = 0;
  return own.replace(/\{(\d*)\}/g, (_, number) => parts[number ? Number(number) - 1 : next++] ?? "");
}

function inParts(text: string, between: RegExp, joined: string): string | null {
  const parts = text.split(between);
  return parts.length > 1 ? parts.map(told).join(joined) : null;
}

/** A sentence without its full stop is looked for, and gets its own one when it was found. */
function ended(text: string): string | null {
  if (!text.endsWith(".")) return null;
  const bare = text.slice(0, -1);
  const own = told(bare);
  return own === bare ? null : `${own}${LANGUAGES[spoken].stop}`;
}

/** The sentence of a run: by the title of its cause where the language has one, else as the data tells it. */
export function result(sentence: string, causeId: string, hop: string): string {
  const title = LANGUAGES[spoken].causes[causeId]?.[0];
  return title ? t.verdict.sentence(title, sentence.endsWith(`, at ${hop}.`) ? hop : "") : told(sentence);
}

/** The first sentence, and those after it. */
export function inTwo(text: string): [string, string] {
  const end = text.search(/[.!?] \p{Lu}|\u3002(?=.)/u) + 1;
  return end > 0 ? [text.slice(0, end), text.slice(end).trimStart()] : [text, ""];
}
