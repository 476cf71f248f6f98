// Experiments: those that can be started, and those that were.

import { h, marked, section, table, type Child } from "../dom";
import type { ExperimentFile, ExperimentList, Job, JobList } from "../generated/api";
import { get, send } from "./ask";
import { button } from "./bar";
import { words } from "./text";

export const jobPath = (id: string): string => `/jobs/${encodeURIComponent(id)}`;

export async function experiments(): Promise<Child[]> {
  const w = words().experiments;
  document.title = `prony: ${w.title}`;
  const [list, { jobs }] = await Promise.all([get<ExperimentList>("/api/experiments"), get<JobList>("/api/jobs")]);
  return [
    h("h1", {}, w.title),
    h("p", { class: "lead" }, w.lead),
    list.running ? h("p", { class: "note warn" }, w.running, " ", h("a", { href: jobPath(list.running) }, w.look)) : null,
    list.experiments.length === 0 ? h("p", { class: "note" }, marked(w.cannot)) : h("ul", { class: "experiments" }, list.experiments.map((one) => card(one, list.running !== null))),
    jobs.length > 0 ? started(jobs) : null,
  ];
}

function card(experiment: ExperimentFile, isBusy: boolean): HTMLElement {
  const w = words().experiments;
  const start = (quick: boolean) => async (): Promise<string> => {
    const job = await send<Job>("POST", "/api/jobs", { file: experiment.file, quick });
    location.assign(jobPath(job.id));
    return "";
  };
  const acts = h("p", { class: "acts" }, button(w.start, start(false)), button(w.quick, start(true)));
  return h(
    "li",
    { class: "card" },
    h("h2", {}, experiment.name || experiment.file),
    h("p", { class: "facts" }, h("code", {}, experiment.file), experiment.wrong === null ? ` ${w.size(experiment.cells, experiment.repeats, experiment.asks)}` : null),
    experiment.wrong ? h("p", { class: "note bad" }, experiment.wrong) : null,
    experiment.about ? h("p", {}, experiment.about) : null,
    experiment.expectation ? h("p", {}, h("b", {}, `${w.expected}: `), experiment.expectation) : null,
    experiment.wrong === null && !isBusy ? acts : null,
  );
}

function started(jobs: Job[]): HTMLElement {
  const w = words().experiments;
  return section("started", w.started, null, table(w.started, [w.experiment, w.when, w.state], jobs.map((job) => [h("a", { href: jobPath(job.id) }, job.name), job.started, state(job)])));
}

/** How it is, and what its exit code means. */
export function state(job: Job): string {
  const text = words().experiments.states[job.state] ?? job.state;
  return job.exit_code === null ? text : `${text}: ${words().job.code(job.exit_code)}`;
}
