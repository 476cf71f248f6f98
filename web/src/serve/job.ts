// An experiment that was started here: what it says, the run that goes on, and its result.

import { drawAll } from "../chart";
import { h, section, type Child } from "../dom";
import type { Job, JobView } from "../generated/api";
import type { LiveView, RunSummary } from "../generated/types";
import { rate } from "../number";
import { get, look, runPath, send } from "./ask";
import { button } from "./bar";
import { jobPath, state } from "./experiments";
import { Live } from "./live";
import { spark } from "./spark";
import { words } from "./text";

export async function job(id: string): Promise<Child[]> {
  const view = await get<JobView>(`/api${jobPath(id)}`);
  document.title = `prony: ${view.job.name}`;
  const page = new Page();
  page.show(view);
  const over = (of: JobView) => of.job.state === "ended" || of.job.state === "cut-short";
  if (!over(view)) look<JobView>(`/api${jobPath(id)}/live`, (now) => page.show(now), () => undefined);
  return [page.element];
}

class Page {
  private readonly head = h("div", {});
  private readonly going = h("div", {});
  private readonly said = h("div", {});
  readonly element = h("div", {}, this.head, this.going, this.said);
  /** The run that is looked at. */
  private watched = "";

  show(view: JobView): void {
    const { job, lines, result, runs } = view;
    const w = words().job;
    const isOver = job.state === "ended" || job.state === "cut-short";
    this.head.replaceChildren(
      h("h1", {}, job.name),
      h("p", { class: "facts" }, h("code", {}, job.file), ` \u00b7 ${job.started} \u00b7 ${state(job)}`),
      job.state === "stopping" ? h("p", { class: "note warn" }, w.stopping) : "",
      job.state === "running" ? h("p", { class: "acts" }, stop(job)) : "",
      h("p", { class: "facts" }, w.kept),
    );
    this.said.replaceChildren(
      result ? section("result", w.result, null, h("pre", { tabindex: 0 }, result)) : "",
      lines.length > 0 ? section("progress", w.progress, null, h("pre", { class: "log", tabindex: 0 }, lines.slice().reverse().join("\n"))) : "",
      runs.length > 0 ? section("runs", w.runs, null, h("ol", { class: "runs" }, runs.map(row))) : "",
    );
    const newest = runs.find((run) => run.end === "open");
    if (isOver) this.going.replaceChildren();
    else if (newest && newest.id !== this.watched) this.watch(newest.id);
    drawAll();
  }

  /** The newest run of the experiment, as it grows. */
  private watch(id: string): void {
    this.watched = id;
    const live = new Live();
    this.going.replaceChildren(live.element);
    look<LiveView>(`/api${runPath(id)}/live`, (view) => live.show(view), () => undefined);
  }
}

const stop = (job: Job): HTMLElement =>
  button(words().job.stop, async () => {
    await send<Job>("POST", `/api${jobPath(job.id)}/stop`);
    return "";
  });

const row = (run: RunSummary): HTMLElement =>
  h(
    "li",
    {},
    h("div", { class: "what" }, h("a", { href: runPath(run.id) }, run.id), h("p", { class: "facts" }, [run.started, words().runs.ends[run.end] ?? run.end].join(" \u00b7 "))),
    spark(run.course),
    h("div", { class: "carried" }, run.course.length > 0 ? h("b", {}, `${rate(run.course[run.course.length - 1]!)}/s`) : null),
  );
