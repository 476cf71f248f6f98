// The pages of `prony serve`: which one is shown follows from the address, and every page is loaded as one.

import "../style.css";
import "../chain.css";
import "../series.css";
import "../flames.css";
import "./serve.css";
import { drawAll, startDrawings } from "../chart";
import { h, type Child } from "../dom";
import type { About } from "../generated/api";
import { onPaper } from "../paper";
import { saveTables } from "../save";
import { repaintSeries } from "../sections/series";
import { restore } from "../settings";
import { get } from "./ask";
import { bar, foot } from "./bar";
import { compare } from "./compare";
import { experiments } from "./experiments";
import { history } from "./history";
import { job } from "./job";
import { run } from "./run";
import { runs } from "./runs";
import { stacks } from "./stacks";
import { words } from "./text";

type Page = (query: URLSearchParams, id: string) => Promise<Child[]>;

/** The same places as in crates/prony-web/src/pages.rs. */
const PAGES: [place: RegExp, page: Page][] = [
  [/^\/$/, (query) => runs(query)],
  [/^\/runs\/([^/]+)$/, (_, id) => run(id)],
  [/^\/compare$/, (query) => compare(query)],
  [/^\/history$/, (query) => history(query)],
  [/^\/experiments$/, () => experiments()],
  [/^\/jobs\/([^/]+)$/, (_, id) => job(id)],
  [/^\/stacks$/, (query) => stacks(query)],
];

async function show(): Promise<void> {
  const main = document.getElementById("pages")!;
  const top = bar(location.pathname, () => void show());
  startDrawings();
  main.replaceChildren(top, h("p", { class: "facts" }, words().loading));
  try {
    const [about, content] = await Promise.all([get<About>("/api/about"), made()]);
    main.replaceChildren(top, h("div", { class: "page" }, content), foot(about));
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    main.replaceChildren(top, h("h1", {}, words().failed), h("p", { class: "note bad", role: "alert" }, text));
  }
  saveTables(main);
  drawAll();
}

function made(): Promise<Child[]> {
  for (const [place, page] of PAGES) {
    const found = place.exec(location.pathname);
    if (found) return page(new URLSearchParams(location.search), decodeURIComponent(found[1] ?? ""));
  }
  return runs(new URLSearchParams());
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintSeries);
restore();
void show();
onPaper();
