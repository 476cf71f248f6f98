// The report as one file: reads the data inside it, and shows it.

import "./style.css";
import "./chain.css";
import "./series.css";
import "./flames.css";
import { drawAll, startDrawings } from "./chart";
import { h } from "./dom";
import type { ReportData } from "./generated/types";
import { onPaper } from "./paper";
import { report } from "./report";
import { saveTables } from "./save";
import { repaintSeries } from "./sections/series";
import { chooseLanguage, chooseTheme, restore } from "./settings";
import { t } from "./text";

function show(data: ReportData): void {
  const main = document.getElementById("report")!;
  document.title = `prony: ${data.headline.sentence}`;
  startDrawings();
  const tools = h("div", { class: "settings" }, chooseLanguage(() => show(data)), chooseTheme(repaintSeries));
  const foot = h("footer", {}, t.page.foot(data.run.id, data.run.version, data.run.started));
  main.replaceChildren(...report(data, tools), foot);
  saveTables(main);
  drawAll();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintSeries);
restore();
show(JSON.parse(document.getElementById("prony-data")!.textContent!) as ReportData);
onPaper();
