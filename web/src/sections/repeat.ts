// The commands that repeat the run, or a part of it.

import { h, section } from "../dom";
import type { ReportData } from "../generated/types";
import { t } from "../text";

export function repeat(data: ReportData): HTMLElement | null {
  if (data.commands.length === 0) return null;
  return section("repeat", t.repeat.title, null, h("dl", { class: "commands" }, data.commands.map((c) => [h("dt", {}, c.what), h("dd", {}, h("pre", { tabindex: 0 }, c.command))])));
}
