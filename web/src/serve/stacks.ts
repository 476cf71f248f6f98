// Stack files: a list, and an editor that says at the line what is wrong.

import { h, marked, type Child } from "../dom";
import type { Checked, StackFiles, StackText } from "../generated/api";
import { get, path, send } from "./ask";
import { button } from "./bar";
import { words } from "./text";

/** A pause in typing after which the text is checked. A guess. */
const TYPING_MS = 350;

export async function stacks(query: URLSearchParams): Promise<Child[]> {
  const w = words().stacks;
  document.title = `prony: ${w.title}`;
  const { files, folders } = await get<StackFiles>("/api/stacks");
  if (folders.length === 0) return [h("h1", {}, w.title), h("p", { class: "note" }, marked(w.cannot))];
  const wanted = query.get("file") ?? files[0]?.file ?? "";
  const fresh = wanted !== "" && !files.some(({ file }) => file === wanted);
  const text = wanted === "" ? null : fresh ? { file: wanted, text: "", version: "" } : await get<StackText>(path("/api/stack", { file: wanted }));
  const entry = ({ file, name, wrong }: StackFiles["files"][number]) =>
    h("li", {}, h("a", { href: path("/stacks", { file }), "aria-current": file === wanted ? "true" : false }, file), h("span", { class: "facts" }, wrong ? h("span", { class: "word bad" }, w.isWrong) : name));
  return [
    h("h1", {}, w.title),
    h("p", { class: "lead" }, w.lead),
    h("div", { class: "editing" }, h("div", {}, h("h2", {}, w.files), h("ul", { class: "files" }, files.map(entry)), make(folders)), text ? new Editor(text).element : null),
  ];
}

/** A name for a new file; it is stored when it is saved for the first time. */
function make(folders: string[]): HTMLElement {
  const w = words().stacks;
  const name = h("input", { value: `${folders[0]}/new.toml`, "aria-label": w.name }) as HTMLInputElement;
  const act = button(w.make, async () => {
    location.assign(path("/stacks", { file: name.value }));
    return "";
  });
  return h("details", {}, h("summary", {}, w.fresh), h("p", { class: "acts" }, name, act));
}

class Editor {
  readonly element: HTMLElement;
  private readonly area: HTMLTextAreaElement;
  private readonly lines = h("ol", { class: "lines", "aria-hidden": "true" });
  private readonly said = h("div", { class: "checked", role: "status" });
  private timer: ReturnType<typeof setTimeout> | undefined;
  private saved: string;

  constructor(private readonly stack: StackText) {
    const w = words().stacks;
    this.saved = stack.text;
    this.area = h("textarea", { "aria-label": `${w.text} ${stack.file}`, spellcheck: "false", wrap: "off", autocomplete: "off" }) as HTMLTextAreaElement;
    this.area.value = stack.text;
    this.area.addEventListener("input", () => {
      this.count([]);
      clearTimeout(this.timer);
      this.timer = setTimeout(() => void this.check(), TYPING_MS);
    });
    this.area.addEventListener("scroll", () => (this.lines.scrollTop = this.area.scrollTop));
    window.addEventListener("beforeunload", (event) => this.area.value !== this.saved && event.preventDefault());
    const save = button(w.save, () => this.save());
    this.element = h("div", { class: "editor" }, h("h2", {}, stack.file), h("div", { class: "sheet" }, this.lines, this.area), h("p", { class: "acts" }, save), this.said);
    this.count([]);
    void this.check();
  }

  private async check(): Promise<void> {
    const text = this.area.value;
    const checked = await send<Checked>("POST", "/api/check", { file: this.stack.file, text });
    // A later text has its own answer.
    if (text === this.area.value) this.tell(checked);
  }

  private async save(): Promise<string> {
    const text = this.area.value;
    const checked = await send<Checked>("PUT", path("/api/stack", { file: this.stack.file }), { text, version: this.stack.version });
    this.stack.version = checked.version;
    this.saved = text;
    this.tell(checked);
    return words().stacks.saved;
  }

  private tell(checked: Checked): void {
    const w = words().stacks;
    const own = checked.messages.filter(({ file }) => file === this.stack.file);
    this.count(own.map(({ line }) => line));
    const message = ({ file, line, text }: Checked["messages"][number]) => {
      const where = line === 0 ? w.whole : w.line(line);
      const jump = h("button", { type: "button", class: "plain" }, where);
      jump.addEventListener("click", () => this.select(line));
      return h("li", {}, file === this.stack.file && line > 0 ? jump : `${file}, ${where}`, ": ", text);
    };
    const verdict = h("p", { class: `note ${checked.right ? "good" : "bad"}` }, checked.right ? `${w.right} ${checked.summary}` : w.wrong);
    this.said.replaceChildren(verdict, h("ul", { class: "messages" }, checked.messages.map(message)));
  }

  /** Numbers beside the lines; those that are wrong stand out. */
  private count(wrong: number[]): void {
    const lines = this.area.value.split("\n").length;
    this.lines.replaceChildren(...Array.from({ length: lines }, (_, i) => h("li", { class: wrong.includes(i + 1) ? "wrong" : false }, i + 1)));
    this.lines.scrollTop = this.area.scrollTop;
  }

  private select(line: number): void {
    const before = this.area.value.split("\n").slice(0, line - 1);
    const from = before.reduce((sum, text) => sum + text.length + 1, 0);
    const end = this.area.value.indexOf("\n", from);
    this.area.focus();
    this.area.setSelectionRange(from, end < 0 ? this.area.value.length : end);
  }
}
