// The list of runs: search, tags, stacks, the course of each as a small line, and the choice of those to compare.

import { h, marked, type Child } from "../dom";
import type { RunList } from "../generated/api";
import type { RunSummary } from "../generated/types";
import { micros, rate } from "../number";
import { result } from "../text";
import { get, path, runPath } from "./ask";
import { spark } from "./spark";
import { words } from "./text";

const PAGE = 50;
/** Typing is waited for, so that not every letter asks the server. A guess. */
const TYPING_MS = 250;
/** How often a list with a run that goes on is asked for again. A guess: it shows a course, the run's page shows more. */
const AGAIN_MS = 5_000;
/** As many as the server compares. */
const COMPARED_MAX = 6;

export async function runs(query: URLSearchParams): Promise<HTMLElement[]> {
  const page = new Page(query);
  await page.ask();
  return [page.element];
}

class Page {
  readonly element = h("div", {});
  private readonly wanted: { q: string; tag: string; stack: string };
  private readonly chosen: string[] = [];
  private readonly found = h("p", { class: "facts", role: "status" });
  private readonly list = h("ol", { class: "runs" });
  private readonly more = h("div", {});
  private readonly filters = h("div", { class: "filters" });
  private readonly compare = h("div", { class: "compare-bar" });
  private readonly unreadable = h("div", {});
  private limit = PAGE;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(query: URLSearchParams) {
    const w = words().runs;
    this.wanted = { q: query.get("q") ?? "", tag: query.get("tag") ?? "", stack: query.get("stack") ?? "" };
    const field = h("input", { type: "search", value: this.wanted.q, placeholder: w.hint, "aria-label": w.search }) as HTMLInputElement;
    field.addEventListener("input", () => this.change({ q: field.value }, TYPING_MS));
    this.element.append(h("h1", {}, w.title), h("div", { class: "search" }, field), this.filters, this.found, this.list, this.more, this.unreadable, this.compare);
    this.offerCompare();
  }

  private change(wanted: Partial<typeof this.wanted>, wait = 0): void {
    Object.assign(this.wanted, wanted);
    this.limit = PAGE;
    history.replaceState(null, "", path("/", this.wanted));
    this.later(wait);
  }

  private later(wait: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.ask(), wait);
  }

  async ask(): Promise<void> {
    const list = await get<RunList>(path("/api/runs", { ...this.wanted, limit: this.limit }));
    const w = words().runs;
    this.found.textContent = w.found(list.total);
    const isFiltered = Object.values(this.wanted).some(Boolean);
    const none = h("li", { class: "note" }, marked(isFiltered ? w.none : w.nothing));
    // A list that is asked for again keeps the place of the keyboard.
    const focused = document.activeElement?.closest(".runs") ? document.activeElement.getAttribute("data-key") : null;
    this.list.replaceChildren(...(list.runs.length > 0 ? list.runs.map((run) => this.row(run)) : [none]));
    if (focused) this.list.querySelector<HTMLElement>(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    this.filters.replaceChildren(this.stacks(list), ...this.tags(list));
    this.more.replaceChildren(...(list.total > list.runs.length ? [this.showMore()] : []));
    this.unreadable.replaceChildren(...(list.unreadable.length > 0 ? [unread(list.unreadable)] : []));
    if (list.runs.some((run) => run.end === "open") && !document.hidden) this.later(AGAIN_MS);
  }

  private row(run: RunSummary): HTMLElement {
    const w = words().runs;
    const box = h("input", { type: "checkbox", "aria-label": w.choose(run.id), "data-key": `box ${run.id}` }) as HTMLInputElement;
    box.checked = this.chosen.includes(run.id);
    box.addEventListener("change", () => {
      const at = this.chosen.indexOf(run.id);
      if (at >= 0) this.chosen.splice(at, 1);
      else this.chosen.push(run.id);
      this.offerCompare();
    });
    const limited = run.generator_limited ? w.atLeast : "";
    return h(
      "li",
      {},
      h("label", { class: "choose" }, box),
      h(
        "div",
        { class: "what" },
        h("a", { href: runPath(run.id), "data-key": `run ${run.id}` }, result(run.sentence, run.cause ?? "", run.hop)),
        h("p", { class: "facts" }, [run.stack, run.started, run.command].filter(Boolean).join(" \u00b7 ")),
        h("p", { class: "labels" }, run.end === "done" ? null : h("span", { class: `label ${run.end === "failed" ? "bad" : "warn"}` }, w.ends[run.end] ?? run.end), cause(run), run.tags.map((tag) => h("span", { class: "label" }, tag))),
      ),
      spark(run.course),
      h("div", { class: "carried" }, run.good_per_s === null ? null : h("b", {}, `${limited}${rate(run.good_per_s)}/s`), run.p99_us === null ? null : h("span", {}, `p99 ${micros(run.p99_us)}`)),
    );
  }

  private stacks(list: RunList): HTMLElement {
    const w = words().runs;
    const option = (name: string, text: string) => h("option", { value: name, selected: name === this.wanted.stack ? "" : false }, text);
    const select = h("select", { "aria-label": w.stack }, option("", `${w.stack}: ${w.all}`), list.stacks.map(({ name, runs }) => option(name, `${name} (${runs})`))) as HTMLSelectElement;
    select.addEventListener("change", () => this.change({ stack: select.value }));
    const stack = this.wanted.stack;
    return h("span", { class: "filter" }, select, stack ? h("a", { href: path("/history", { stack }) }, w.history) : null);
  }

  private tags(list: RunList): HTMLElement[] {
    return list.tags.map(({ name, runs }) => {
      const isOn = this.wanted.tag === name;
      const tag = h("button", { type: "button", class: "label", "aria-pressed": String(isOn) }, `${name} ${runs}`);
      tag.addEventListener("click", () => this.change({ tag: isOn ? "" : name }));
      return tag;
    });
  }

  private showMore(): HTMLElement {
    const more = h("button", { type: "button" }, words().runs.more);
    more.addEventListener("click", () => {
      this.limit = Math.min(this.limit + PAGE, 500);
      void this.ask();
    });
    return more;
  }

  private offerCompare(): void {
    const text = words().runs.compare(this.chosen.length);
    const can = this.chosen.length >= 2 && this.chosen.length <= COMPARED_MAX;
    this.compare.replaceChildren(can ? h("a", { class: "button", href: `/compare?runs=${this.chosen.map(encodeURIComponent).join(",")}` }, text) : h("span", {}, text));
    this.compare.classList.toggle("on", this.chosen.length > 0);
  }
}

const cause = (run: RunSummary): Child => (run.cause && run.cause !== "none" ? h("code", {}, run.hop ? `${run.cause} at ${run.hop}` : run.cause) : null);

const unread = (files: string[]): HTMLElement => h("details", {}, h("summary", {}, words().runs.unreadable(files.length)), h("ul", { class: "looked" }, files.map((file) => h("li", {}, file))));
