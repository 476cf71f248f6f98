// The report page: reads the data inside this file, puts the sections below each other, verdict first.

import "./style.css";
import "./chain.css";
import "./series.css";
import { drawAll, startDrawings } from "./chart";
import { h } from "./dom";
import type { ReportData } from "./generated/types";
import { against } from "./sections/against";
import { changes } from "./sections/changes";
import { cost } from "./sections/cost";
import { cpu } from "./sections/cpu";
import { curve } from "./sections/curve";
import { excluded } from "./sections/excluded";
import { flames } from "./sections/flames";
import { gaps } from "./sections/gaps";
import { interventions } from "./sections/interventions";
import { latency } from "./sections/latency";
import { limit } from "./sections/limit";
import { proof } from "./sections/proof";
import { raw } from "./sections/raw";
import { repeat } from "./sections/repeat";
import { printSeries, repaintSeries, series } from "./sections/series";
import { verdict } from "./sections/verdict";
import { walk } from "./sections/walk";
import { saveTables } from "./save";
import { chooseLanguage, chooseTheme, restore } from "./settings";
import { t } from "./text";

/** In the order of the page; a section that has nothing to show returns null and is left out. */
const SECTIONS: ((data: ReportData) => HTMLElement | null)[] = [
  walk,
  limit,
  proof,
  interventions,
  curve,
  latency,
  cpu,
  series,
  flames,
  excluded,
  against,
  gaps,
  changes,
  cost,
  repeat,
  raw,
];

function show(data: ReportData): void {
  const main = document.getElementById("report")!;
  document.title = `prony: ${data.headline.sentence}`;
  startDrawings();
  const sections = SECTIONS.map((section) => section(data)).filter((element) => element !== null);
  const contents = h(
    "nav",
    { "aria-label": t.page.sections },
    sections.map((element) => h("a", { href: `#${element.id}` }, element.querySelector("h2")?.textContent)),
  );
  const tools = h("div", { class: "settings" }, chooseLanguage(() => show(data)), chooseTheme(repaintSeries));
  const foot = h("footer", {}, t.page.foot(data.run.id, data.run.version, data.run.started));
  main.replaceChildren(verdict(data, tools), sections.length > 1 ? contents : "", ...sections, foot);
  saveTables(main);
  drawAll();
}

/** Paper shows everything but the charts of hosts that are folded, and is light. */
function print(): void {
  const root = document.documentElement;
  let theme: string | undefined;
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll<HTMLDetailsElement>("details:not(.time-host, .chart-figures)")) details.open = true;
    theme = root.dataset["theme"];
    root.dataset["theme"] = "light";
    printSeries();
  });
  window.addEventListener("afterprint", () => {
    if (theme === undefined) delete root.dataset["theme"];
    else root.dataset["theme"] = theme;
    repaintSeries();
  });
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintSeries);
restore();
show(JSON.parse(document.getElementById("prony-data")!.textContent!) as ReportData);
print();
