// What a reader sees first: the result in one sentence, key figures, why it can be trusted, where it is.

import { h, marked } from "../dom";
import type { ReportData, VerdictView } from "../generated/types";
import { seconds } from "../number";
import { cause, inTwo, result, said, t, told } from "../text";
import { stack } from "./stack";

/** A result with more letters is written smaller, so that it takes three lines at most. */
const LONG_RESULT = 90;
/** Values with more letters, like `at least 7,038/s`, are written smaller, so that they stay on one line. */
const LONG = 11;

export function verdict(data: ReportData, tools: HTMLElement): HTMLElement {
  const { headline, run, verdict: found } = data;
  const subject = data.stack.name || data.stack.entry;
  const when = [run.started, run.wall_s === null ? null : t.verdict.inAll(seconds(run.wall_s))].filter(Boolean).join(" \u00b7 ");
  const [, meaning] = found ? cause(found.cause, found.title, found.meaning) : ["", ""];
  const [first, more] = inTwo(result(headline.sentence, found?.cause ?? "", found?.hop ?? ""));
  return h(
    "header",
    { class: `verdict ${headline.tone}` },
    h("div", { class: "subject" }, h("span", { class: "brand" }, "prony"), subject ? h("span", {}, subject) : null, h("span", {}, when), tools),
    h("h1", { class: first.length > LONG_RESULT ? "long" : null }, first),
    more ? h("p", { class: "summary" }, more) : null,
    headline.support ? h("p", { class: `support ${data.proof?.tone ?? "plain"}` }, told(headline.support)) : null,
    run.end_note ? h("p", { class: `note ${run.end === "failed" ? "bad" : "warn"}`, role: "note" }, run.end_note) : null,
    headline.figures.length > 0
      ? h(
          "dl",
          { class: "figures" },
          headline.figures.map((f) => h("div", { class: f.tone }, h("dt", {}, said(f.label)), h("dd", { class: f.value.length > LONG ? "big long" : "big" }, told(f.value)), h("dd", {}, marked(told(f.note))))),
        )
      : null,
    found?.summary ? h("p", { class: "summary" }, marked(together(told(found.summary)))) : null,
    found && meaning && found.cause !== "none" ? h("p", { class: "meaning" }, marked(meaning), " ", h("code", {}, found.cause)) : null,
    stack(data),
    found && found.grounding.length > 0 ? grounding(found) : null,
  );
}

function grounding(found: VerdictView): HTMLElement {
  return h(
    "div",
    { class: "grounding" },
    h("h2", {}, found.grounded ? t.verdict.grounded : t.verdict.notGrounded),
    h(
      "ul",
      {},
      found.grounding.map((g) =>
        h("li", { class: g.holds ? "good" : "warn" }, h("b", {}, h("span", { class: "sign" }, g.holds ? t.verdict.yes : t.verdict.no), said(g.title)), h("span", {}, told(g.detail))),
      ),
    ),
  );
}

/** A number and its percent sign stay on one line. */
const together = (text: string): string => text.replace(/(\d) %/g, "$1\u00a0%");
