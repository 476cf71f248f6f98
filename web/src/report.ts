// The parts of a report in the order of the page, for the file that stands alone and for the pages of `prony serve`.

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
import { series } from "./sections/series";
import { verdict } from "./sections/verdict";
import { walk } from "./sections/walk";
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

/** The verdict with `tools` beside its name, the contents, the sections. */
export function report(data: ReportData, tools: HTMLElement): HTMLElement[] {
  const sections = SECTIONS.map((section) => section(data)).filter((element) => element !== null);
  const contents = h(
    "nav",
    { "aria-label": t.page.sections },
    sections.map((element) => h("a", { href: `#${element.id}` }, element.querySelector("h2")?.textContent)),
  );
  return [verdict(data, tools), ...(sections.length > 1 ? [contents] : []), ...sections];
}
