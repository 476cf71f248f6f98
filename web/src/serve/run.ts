// One run: its tags, and its report; while it goes on, what was found so far.

import { h, type Child } from "../dom";
import type { ReportData, RunSummary } from "../generated/types";
import { report } from "../report";
import { get, path, send } from "./ask";
import { button } from "./bar";
import { live } from "./live";
import { words } from "./text";

export async function run(id: string): Promise<Child[]> {
  const data = await get<ReportData>(`/api/runs/${encodeURIComponent(id)}`);
  document.title = `prony: ${data.headline.sentence}`;
  const stack = data.stack.name || data.stack.entry;
  const tools = h(
    "div",
    { class: "run-tools" },
    h("a", { href: "/" }, words().back),
    stack ? h("a", { href: path("/history", { stack }) }, words().runs.history) : null,
    await tags(data),
  );
  const nothing = h("span", {});
  if (data.run.end === "open") return [tools, live(id, data)];
  return [tools, ...report(data, nothing)];
}

async function tags(data: ReportData): Promise<HTMLElement> {
  const w = words().run;
  const of = `/api/runs/${encodeURIComponent(data.run.id)}/tags`;
  const now = await get<RunSummary>(of);
  const field = h("input", { value: now.tags.join(" "), placeholder: w.tagsHint, "aria-label": w.tags }) as HTMLInputElement;
  const save = async (): Promise<string> => {
    const wanted = field.value.split(/[\s,]+/).filter(Boolean);
    const saved = await send<RunSummary>("PUT", of, { tags: wanted });
    field.value = saved.tags.join(" ");
    return w.saved;
  };
  const act = button(w.save, save);
  field.addEventListener("keydown", (event) => event.key === "Enter" && act.querySelector("button")!.click());
  return h("span", { class: "tags" }, h("span", {}, w.tags), field, act);
}
