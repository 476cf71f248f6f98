// The report page: reads the data inside this file, puts the sections below each other, verdict first.

import "./style.css";
import { drawAll } from "./chart";
import { h } from "./dom";
import type { ReportData } from "./generated/types";
import { against } from "./sections/against";
import { changes } from "./sections/changes";
import { cost } from "./sections/cost";
import { cpu } from "./sections/cpu";
import { curve } from "./sections/curve";
import { evidence } from "./sections/evidence";
import { excluded } from "./sections/excluded";
import { flames } from "./sections/flames";
import { gaps } from "./sections/gaps";
import { interventions } from "./sections/interventions";
import { latency } from "./sections/latency";
import { limit } from "./sections/limit";
import { proof } from "./sections/proof";
import { raw } from "./sections/raw";
import { repeat } from "./sections/repeat";
import { walk } from "./sections/walk";
import { verdict } from "./sections/verdict";

/** In the order of the page; a section that has nothing to show returns null and is left out. */
const SECTIONS: ((data: ReportData) => HTMLElement | null)[] = [
  limit,
  walk,
  evidence,
  proof,
  interventions,
  curve,
  latency,
  cpu,
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
  const sections = SECTIONS.map((section) => section(data)).filter((element) => element !== null);
  const contents = h(
    "nav",
    { "aria-label": "Sections" },
    sections.map((element) => h("a", { href: `#${element.id}` }, element.querySelector("h2")?.textContent)),
  );
  const foot = h("footer", {}, `Run ${data.run.id}, prony ${data.run.version}, started ${data.run.started}. This file needs no network.`);
  main.replaceChildren(verdict(data), sections.length > 1 ? contents : "", ...sections, foot);
  drawAll();
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
}

show(JSON.parse(document.getElementById("prony-data")!.textContent!) as ReportData);
