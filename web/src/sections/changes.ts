// What was changed on hosts, how it ended, and what makes it permanent; and what else would mend it.

import { h, marked, section } from "../dom";
import type { ChangeView, ReportData } from "../generated/types";
import { said, t } from "../text";

export function changes(data: ReportData): HTMLElement | null {
  if (data.changes.length === 0 && data.remedies.length === 0) return null;
  return section(
    "changes",
    t.changes.title,
    null,
    data.remedies.length > 0
      ? h("ul", { class: "remedies" }, data.remedies.map((r) => h("li", {}, marked(r.advice), r.knob ? [" ", h("code", {}, r.knob)] : null)))
      : null,
    data.changes.map(change),
  );
}

function change(c: ChangeView): HTMLElement {
  return h(
    "div",
    { class: "card change" },
    h("h3", {}, h("code", {}, c.knob), t.walk.at(c.host), h("span", { class: `word ${c.tone}` }, said(c.state))),
    h("p", {}, t.changes.tried(said(c.title), c.before || t.changes.notSet, c.after)),
    c.diff ? h("pre", { class: "diff", tabindex: 0 }, c.diff.trimEnd().split("\n").map((text) => h("span", { class: kind(text) }, `${text}\n`))) : null,
    c.permanent ? h("p", {}, h("b", {}, t.changes.permanent), marked(c.permanent)) : null,
  );
}

function kind(text: string): string {
  if (text.startsWith("+++") || text.startsWith("---") || text.startsWith("@@")) return "place";
  return text.startsWith("+") ? "added" : text.startsWith("-") ? "removed" : "same";
}
