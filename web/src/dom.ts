// Makes elements. Text of a run only ever becomes a text node or an attribute value, never markup.

import { NONE } from "./number";

export type Child = Node | string | number | null | undefined | false | Child[];
type Attributes = Record<string, string | number | null | undefined | false>;

const SVG = "http://www.w3.org/2000/svg";

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  append(element, children);
  return element;
}

function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined && child !== false) element.append(String(child));
  }
}

/** An HTML element. */
export function h(tag: string, attributes: Attributes = {}, ...children: Child[]): HTMLElement {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Text whose parts between backticks are code. */
export const marked = (text: string): Child[] => text.split("`").map((part, i) => (i % 2 === 1 ? h("code", {}, part) : part));

/** A section with a heading and one line that says how to read it. */
export function section(id: string, title: string, lead: Child, ...children: Child[]): HTMLElement {
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title),
    lead ? h("p", { class: "lead" }, lead) : null,
    ...children,
  );
}

/** A table; columns that start with `>` hold numbers, and columns without any content are left out. Scrolls sideways when
 *  the page is narrow. */
export function table(caption: string, titles: string[], cells: Child[][]): HTMLElement {
  const empty = (child: Child) => child === "" || child === NONE || child === null || child === undefined;
  const used = titles.map((_, column) => cells.some((row) => !empty(row[column])));
  const head = titles.filter((_, column) => used[column]);
  const rows = cells.map((row) => row.filter((_, column) => used[column]));
  const numeric = head.map((title) => title.startsWith(">"));
  const cell = (tag: string, child: Child, column: number, scope?: string) =>
    h(tag, { class: numeric[column] ? "number" : false, scope }, child);
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": caption, tabindex: 0 },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, head.map((title, i) => cell("th", title.replace(/^>/, ""), i, "col")))),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h("tr", {}, row.map((child, i) => (i === 0 ? cell("th", child, i, "row") : cell("td", child, i)))),
        ),
      ),
    ),
  );
}
