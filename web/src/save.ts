// What leaves the page: files, the clipboard, drawings that keep their colours without the style sheet.

import { colour } from "./colour";
import { csvOf } from "./csv";
import { h } from "./dom";
import { t } from "./text";

/** Hands a file to the browser; returns what to tell the reader. */
export function keep(blob: Blob, name: string): string {
  const link = h("a", { href: URL.createObjectURL(blob), download: name }) as HTMLAnchorElement;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  return t.save.saved(name);
}

/** A picture into the clipboard where the browser has one, else into a file. */
export async function copy(canvas: HTMLCanvasElement, name: string): Promise<string> {
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (!blob) return "";
  try {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
    return t.save.copied;
  } catch {
    return keep(blob, `${name}.png`);
  }
}

/** Buttons in a row, and what the last of them did. */
export function saveButtons(title: string, acts: { text: string; hint: string; act: () => string | Promise<string> }[]): HTMLElement {
  const said = h("span", { class: "saved", role: "status" });
  const buttons = acts.map(({ text, hint, act }) => {
    const button = h("button", { type: "button", title: hint, "aria-label": `${hint}: ${title}` }, text);
    button.addEventListener("click", async () => said.replaceChildren(await act()));
    return button;
  });
  return h("div", { class: "save" }, said, buttons);
}

/** Buttons for a drawing of the page. `drawn` is asked when one is pressed, because drawings are made anew for each width. */
export function saveDrawing(title: string, drawn: () => SVGElement | null, name: () => string): HTMLElement {
  return saveButtons(title, [
    { text: "PNG", hint: t.save.png, act: async () => copy(await painted(drawn()!), name()) },
    { text: "SVG", hint: t.save.svg, act: () => keep(new Blob([standalone(drawn()!).text], { type: "image/svg+xml" }), `${name()}.svg`) },
  ]);
}

/** Gives every table below `root` a button that saves it as CSV. */
export function saveTables(root: HTMLElement): void {
  for (const scroll of root.querySelectorAll<HTMLElement>(".scroll")) {
    const title = scroll.getAttribute("aria-label") ?? "";
    const name = scroll.closest("section")?.id ?? "table";
    const rows = () => [...scroll.querySelectorAll("tr")].map((row) => [...row.querySelectorAll("th, td")].map((cell) => cell.textContent ?? ""));
    const act = () => keep(new Blob([csvOf(rows())], { type: "text/csv" }), `${name}.csv`);
    const buttons = saveButtons(title, [{ text: "CSV", hint: t.save.csv, act }]);
    buttons.classList.add("of-table");
    scroll.before(buttons);
  }
}

/** What the style sheet gives to a drawing. */
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "paint-order", "opacity", "font-family", "font-size", "font-weight"];

function standalone(drawn: SVGElement): { text: string; width: number; height: number } {
  const { width, height } = drawn.getBoundingClientRect();
  const copied = drawn.cloneNode(true) as SVGElement;
  const [from, to] = [drawn.querySelectorAll("*"), copied.querySelectorAll<SVGElement>("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) to[i]!.style.setProperty(name, style.getPropertyValue(name));
  });
  copied.setAttribute("width", String(width));
  copied.setAttribute("height", String(height));
  copied.style.background = colour("paper");
  return { text: new XMLSerializer().serializeToString(copied), width, height };
}

async function painted(drawn: SVGElement): Promise<HTMLCanvasElement> {
  const { text, width, height } = standalone(drawn);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  // Twice as fine as the screen, so that it can be enlarged a little.
  const scale = 2;
  const canvas = h("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) }) as HTMLCanvasElement;
  const ctx = canvas.getContext("2d")!;
  ctx.scale(scale, scale);
  ctx.fillStyle = colour("paper");
  ctx.fillRect(0, 0, width, height);
  ctx.drawImage(image, 0, 0, width, height);
  return canvas;
}
