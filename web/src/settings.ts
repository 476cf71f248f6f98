// What a reader chooses: language and theme. Kept by the browser where it allows that, and forgotten where not.

import { h } from "./dom";
import { LANGUAGES, speak, t, type Language } from "./text";

const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

const chosen: { language: Language; theme: Theme } = { language: "en", theme: "auto" };

/** Takes over what was chosen before. */
export function restore(): void {
  const isLanguage = (name: string | null): name is Language => name !== null && name in LANGUAGES;
  const kept = { language: read("prony-language"), theme: read("prony-theme") };
  if (isLanguage(kept.language)) chosen.language = kept.language;
  chosen.theme = THEMES.find((theme) => theme === kept.theme) ?? "auto";
  speak(chosen.language, document.documentElement);
  dress();
}

/** `then` draws the page in the new language. */
export function chooseLanguage(then: () => void): HTMLElement {
  const options = Object.entries(LANGUAGES).map(([key, { name }]) => [key, name] as const);
  return choice("language", t.page.language, options, chosen.language, (value) => {
    chosen.language = value as Language;
    keep("prony-language", value);
    speak(chosen.language, document.documentElement);
    then();
    document.getElementById("language")?.focus();
  });
}

/** `then` draws what does not follow the style sheet by itself. */
export function chooseTheme(then: () => void): HTMLElement {
  const options = THEMES.map((theme) => [theme, t.page.themes[theme]] as const);
  return choice("theme", t.page.theme, options, chosen.theme, (value) => {
    chosen.theme = value as Theme;
    keep("prony-theme", value);
    dress();
    then();
  });
}

function choice(id: string, label: string, options: (readonly [string, string])[], now: string, act: (value: string) => void): HTMLElement {
  const select = h(
    "select",
    { id, "aria-label": label, title: label },
    options.map(([value, name]) => h("option", { value, selected: value === now ? "" : false }, name)),
  ) as HTMLSelectElement;
  select.addEventListener("change", () => act(select.value));
  return select;
}

function dress(): void {
  const root = document.documentElement;
  if (chosen.theme === "auto") delete root.dataset["theme"];
  else root.dataset["theme"] = chosen.theme;
}

function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function keep(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // A browser that keeps nothing for files still shows what was chosen.
  }
}
