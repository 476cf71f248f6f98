// Causes that were checked and ruled out, and those that the evidence still allows.

import { h, section, table } from "../dom";
import type { ReportData } from "../generated/types";
import { cause, t } from "../text";

/** About a screen. */
const ROWS_MAX = 12;

export function excluded(data: ReportData): HTMLElement | null {
  const others = data.candidates.filter((c) => c.cause !== data.verdict?.cause || c.hop !== data.verdict?.hop);
  if (data.excluded.length === 0 && others.length === 0) return null;
  const name = (title: string, id: string) => [cause(id, title, "")[0], " ", h("code", {}, id)];
  return section(
    "excluded",
    t.excluded.title,
    data.excluded.length > 0 ? t.excluded.lead : null,
    data.excluded.length > 0 ? folded(t.excluded.all(data.excluded.length), data.excluded.length, table(t.excluded.title, [t.excluded.cause, t.excluded.because], data.excluded.map((e) => [name(e.title, e.cause), e.because]))) : null,
    others.length > 0
      ? table(t.excluded.also, [t.excluded.cause, t.words.host, `>${t.excluded.explains}`], others.map((c) => [name(c.title, c.cause), c.hop, c.share_text]))
      : null,
  );
}

/** A table longer than a screen waits until it is asked for. */
const folded = (title: string, rows: number, content: HTMLElement): HTMLElement => (rows > ROWS_MAX ? h("details", {}, h("summary", {}, title), content) : content);
