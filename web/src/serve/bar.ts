// What stands on every page: the way to the others, language and theme, and which server this is.

import { h, type Child } from "../dom";
import type { About } from "../generated/api";
import { repaintSeries } from "../sections/series";
import { chooseLanguage, chooseTheme } from "../settings";
import { words } from "./text";

/** `again` shows the page in another language. */
export function bar(place: string, again: () => void): HTMLElement {
  const w = words().bar;
  const pages: [path: string, name: string, places: string[]][] = [
    ["/", w.runs, ["/", "/runs", "/compare", "/history"]],
    ["/experiments", w.experiments, ["/experiments", "/jobs"]],
    ["/stacks", w.stacks, ["/stacks"]],
  ];
  const here = `/${place.split("/")[1] ?? ""}`;
  return h(
    "div",
    { class: "bar", role: "banner" },
    h("a", { class: "brand", href: "/" }, "prony"),
    h(
      "nav",
      { class: "pages", "aria-label": w.pages },
      pages.map(([path, name, places]) => h("a", { href: path, "aria-current": places.includes(here) ? "page" : false }, name)),
    ),
    h("div", { class: "settings" }, chooseLanguage(again), chooseTheme(repaintSeries)),
  );
}

export const foot = (about: About): HTMLElement => h("footer", {}, words().bar.foot(about.version, about.runs_folder));

/** A button that does something which may be refused; what went wrong is said beside it. */
export function button(text: string, act: () => Promise<Child>, className = ""): HTMLElement {
  const said = h("span", { class: "said", role: "status" });
  const pressed = h("button", { type: "button", class: className || false }, text) as HTMLButtonElement;
  pressed.addEventListener("click", async () => {
    pressed.disabled = true;
    try {
      const done = await act();
      said.className = "said";
      said.replaceChildren(...(done ? [done as Node | string] : []));
    } catch (error) {
      said.className = "said bad";
      said.replaceChildren(error instanceof Error ? error.message : String(error));
    } finally {
      pressed.disabled = false;
    }
  });
  return h("span", { class: "act" }, pressed, said);
}
