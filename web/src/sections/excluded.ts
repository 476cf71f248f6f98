// Causes that were checked and ruled out, and those that the evidence still allows.

import { h, section, table } from "../dom";
import type { ReportData } from "../generated/types";

export function excluded(data: ReportData): HTMLElement | null {
  const others = data.candidates.filter((c) => c.cause !== data.verdict?.cause || c.hop !== data.verdict?.hop);
  if (data.excluded.length === 0 && others.length === 0) return null;
  const name = (title: string, id: string) => [title, " ", h("code", {}, id)];
  return section(
    "excluded",
    "Ruled out",
    data.excluded.length > 0 ? "Causes that were checked, and the fact that rules each one out." : null,
    data.excluded.length > 0 ? table("Causes ruled out", ["Cause", "Because"], data.excluded.map((e) => [name(e.title, e.cause), e.because])) : null,
    others.length > 0
      ? table("Also possible, but explaining less", ["Cause", "Host", ">Explains"], others.map((c) => [name(c.title, c.cause), c.hop, c.share_text]))
      : null,
  );
}
