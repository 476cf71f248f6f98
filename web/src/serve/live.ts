// A run that goes on: the load curve grows, evidence arrives. The parts are those of the report; only what has changed is made
// anew, so that a reader keeps the place.

import { drawAll, replaceDrawn } from "../chart";
import { h } from "../dom";
import type { HappenedView, LiveView, ReportData } from "../generated/types";
import { clock } from "../number";
import { curve } from "../sections/curve";
import { interventions } from "../sections/interventions";
import { limit } from "../sections/limit";
import { proof } from "../sections/proof";
import { verdict } from "../sections/verdict";
import { walk } from "../sections/walk";
import { look } from "./ask";
import { words } from "./text";
import { trials } from "./trials";

interface Part {
  /** What it shows: it is made anew when this has changed. */
  of: (view: LiveView) => unknown;
  make: (view: LiveView) => HTMLElement | null;
}

/** What a run's own page shows first; the page of an experiment has a head and a log of its own. */
const HEAD: Part[] = [
  { of: ({ report }) => [report.headline, report.run, report.verdict, report.stack], make: ({ report }) => verdict(report, h("span", {})) },
  { of: ({ happened }) => happened, make: ({ happened }) => log(happened) },
];

const FOUND: Part[] = [
  { of: ({ report }) => report.trials, make: ({ report }) => trials(report.trials) },
  { of: ({ report }) => report.limit, make: ({ report }) => limit(report) },
  { of: ({ report }) => report.curve, make: ({ report }) => curve(report) },
  { of: ({ report }) => [report.walk, report.evidence], make: ({ report }) => walk(report) },
  { of: ({ report }) => report.interventions, make: ({ report }) => interventions(report) },
  { of: ({ report }) => report.proof, make: ({ report }) => proof(report) },
];

/** Shows a run until its end, and then its whole report. */
export function live(id: string, data: ReportData): HTMLElement {
  const shown = new Live([...HEAD, ...FOUND]);
  shown.show({ report: data, happened: [] });
  const ended = () => location.reload();
  look<LiveView>(`/api/runs/${encodeURIComponent(id)}/live`, (view, isLast) => (isLast ? ended() : shown.show(view)), () => shown.gone());
  return shown.element;
}

export class Live {
  private readonly note = h("p", { class: "note warn", role: "status" }, words().run.live);
  private readonly shown: { text: string; element: HTMLElement }[];
  readonly element: HTMLElement;

  constructor(private readonly parts: Part[] = FOUND) {
    this.shown = parts.map(() => ({ text: "", element: h("div", {}) }));
    this.element = h("div", { class: "live" }, this.note, this.shown.map(({ element }) => element));
  }

  show(view: LiveView): void {
    this.parts.forEach(({ of, make }, i) => {
      const part = this.shown[i]!;
      const text = JSON.stringify(of(view));
      if (text === part.text) return;
      const fresh = make(view) ?? h("div", {});
      keepOpen(part.element, fresh);
      replaceDrawn(part.element, fresh);
      this.shown[i] = { text, element: fresh };
    });
    drawAll();
  }

  gone(): void {
    this.note.textContent = words().run.gone;
  }
}

/** What a reader has unfolded stays so. */
function keepOpen(old: HTMLElement, fresh: HTMLElement): void {
  const open = new Set([...old.querySelectorAll("details[open] > summary")].map((summary) => summary.firstChild?.textContent));
  if (open.size === 0) return;
  for (const summary of fresh.querySelectorAll("details > summary")) {
    if (open.has(summary.firstChild?.textContent)) (summary.parentElement as HTMLDetailsElement).open = true;
  }
}

/** The newest line first: it is what changes. */
function log(happened: HappenedView[]): HTMLElement | null {
  if (happened.length === 0) return null;
  const lines = [...happened].reverse().map(({ at_s, text, tone }) => h("li", { class: tone }, h("span", {}, clock(Math.round(at_s))), h("span", {}, text)));
  return h("section", { class: "happened", "aria-labelledby": "happened-title" }, h("h2", { id: "happened-title" }, words().run.happened), h("ol", { class: "log", tabindex: 0 }, lines));
}
