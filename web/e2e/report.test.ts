// The report of a recorded run in Debian's chromium, used as a reader uses it.
//
// `PRONY_PAGE` names the page, which `cargo xtask ci --only page` makes; `PRONY_SHOTS` a folder that gets screenshots.
// It holds what a page does, not how long that takes.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PATIENCE_MS, fits, isAccessible, launch, reading as readingAt, shots } from "./browser";

const page_path = process.env["PRONY_PAGE"];

let browser: Browser;

beforeAll(async () => {
  if (!page_path) throw new Error("PRONY_PAGE must name a report: prony report RUN -o report.html");
  browser = await launch();
}, PATIENCE_MS);

afterAll(async () => browser?.close());

const reading = (options: BrowserContextOptions, read: (page: Page) => Promise<void>): Promise<void> =>
  readingAt(browser, pathToFileURL(page_path!).href, /^(file|data|blob):/, options, read);

/** The first chart that is drawn, in view. */
async function firstChart(page: Page) {
  const chart = page.locator(".time-chart").first();
  await chart.scrollIntoViewIfNeeded();
  await chart.locator("canvas").waitFor();
  return chart;
}

test("the answer stands on the first screen", { timeout: PATIENCE_MS }, () =>
  reading({}, async (page) => {
    for (const part of ["h1", ".figures", ".summary", ".stack svg"]) {
      const box = await page.locator(part).first().boundingBox();
      expect(box!.y, part).toBeLessThan(900);
    }
    expect(await page.locator(".node.limits").count()).toBe(1);
  }),
);

test("every step of the chain opens", { timeout: PATIENCE_MS }, () =>
  reading({}, async (page) => {
    const steps = page.locator(".chain > li > details");
    expect(await steps.count()).toBeGreaterThan(3);
    for (const step of await steps.all()) {
      if ((await step.getAttribute("open")) === null) await step.locator("summary").click();
      expect(await step.locator(".looked").isVisible()).toBe(true);
    }
    await page.locator(".over-time").first().click();
    await expect.poll(() => page.evaluate(() => document.activeElement?.className), { timeout: PATIENCE_MS / 2 }).toBe("time-drawing");
  }),
);

test("cursor, zoom and lines are those of all charts", { timeout: PATIENCE_MS }, () =>
  reading({}, async (page) => {
    const chart = await firstChart(page);
    const area = (await chart.locator(".u-over").boundingBox())!;
    const at = (share: number) => [area.x + area.width * share, area.y + area.height / 2] as const;
    await page.mouse.move(...at(0.2));
    await page.mouse.move(...at(0.25));
    const told = () => page.locator(".time-chart .value:not(:empty)").count();
    expect(await told()).toBeGreaterThan(await chart.locator(".value").count());
    await page.mouse.down();
    await page.mouse.move(...at(0.4), { steps: 4 });
    await page.mouse.up();
    expect(await page.locator(".time-tools .range").textContent()).toContain("Shown: ");
    await page.mouse.dblclick(...at(0.5));
    expect(await page.locator(".time-tools .range").textContent()).toBe("");
    await chart.locator(".time-drawing").focus();
    await page.keyboard.press("+");
    expect(await page.locator(".time-tools .range").textContent()).toContain("Shown: ");
    await page.locator(".time-tools button").click();
    expect(await page.locator(".time-tools .range").textContent()).toBe("");
    await page.locator(".time-host:not([open]) > summary").first().click();
    await page.locator(".time-host[open]").nth(1).locator("canvas").first().waitFor();
    const name = chart.locator(".time-legend button").first();
    await name.click();
    expect(await name.getAttribute("aria-pressed")).toBe("false");
  }),
);

test("charts can be taken along", { timeout: PATIENCE_MS }, () =>
  reading({}, async (page) => {
    const chart = await firstChart(page);
    const saved = async (button: string) => {
      const download = page.waitForEvent("download");
      await chart.locator(".save button", { hasText: button }).click();
      return readFile((await (await download).path())!);
    };
    const svg = (await saved("SVG")).toString();
    expect(svg).toMatch(/^<svg [^>]*xmlns="http:\/\/www.w3.org\/2000\/svg"/);
    expect(svg).toContain("<path d=\"M");
    expect((await saved("CSV")).toString()).toMatch(/^at_s,.+\n[\d.]+,/);
    const drawn = page.locator("#curve .drawn");
    await drawn.hover();
    const download = page.waitForEvent("download");
    await drawn.locator(".save button", { hasText: "SVG" }).click();
    expect((await readFile((await (await download).path())!)).toString()).toMatch(/^<svg .*stroke: rgb/s);
    await page.locator("#curve .scroll").hover();
    const rows = page.waitForEvent("download");
    await page.locator("#curve .of-table button").click();
    expect((await readFile((await (await rows).path())!)).toString()).toMatch(/^Level,Load,/);
    // Into the clipboard where the browser has one, else into a file.
    await chart.locator(".save button", { hasText: "PNG" }).click();
    await expect.poll(() => chart.locator(".saved").textContent(), { timeout: PATIENCE_MS / 2 }).toMatch(/copied|\.png/);
    const figures = chart.locator(".chart-figures");
    await figures.locator("summary").click();
    // The table is made when the part is open, which the browser tells a moment later.
    await figures.locator("tbody tr").first().waitFor();
    expect(await figures.locator("tbody tr").count()).toBeGreaterThan(0);
  }),
);

test("a function is found in the flame graph", { timeout: PATIENCE_MS }, () =>
  reading({}, async (page) => {
    const field = page.locator(".flame-tools input").first();
    await field.scrollIntoViewIfNeeded();
    await field.fill("write");
    expect(await page.locator(".flame rect.flame-found").count()).toBeGreaterThan(0);
    expect(await page.locator(".flame-said").first().textContent()).toContain("write");
  }),
);

test("a profile is held against that of an earlier run", { timeout: PATIENCE_MS }, () =>
  reading({}, async (page) => {
    const flame = page.locator("#profile .flame").first();
    const button = flame.locator(".flame-difference");
    await button.scrollIntoViewIfNeeded();
    expect(await flame.locator("rect[class^=shift]").count()).toBe(0);
    await button.focus();
    await page.keyboard.press("Enter");
    expect(await button.getAttribute("aria-pressed")).toBe("true");
    expect(await flame.locator("rect.flame-user, rect.flame-kernel").count()).toBe(await flame.locator(".calls rect.flame-user, .calls rect.flame-kernel").count());
    for (const sign of ["less", "more"]) expect(await flame.locator(`.flame-frame rect[class*=shift-${sign}]`).count(), sign).toBeGreaterThan(0);
    expect(await flame.locator(".legend").first().textContent()).toContain("percentage points");
    const moved = flame.locator(".flame-frame:has(rect[class*=shift-less])").first();
    expect(await moved.locator("title").textContent()).toMatch(/: [\d.]+ % of the CPU samples, .+; [\d.]+ % before, -[\d.]+ points$/);
    await moved.hover();
    expect(await flame.locator(".flame-said").textContent()).toContain("% before");
    const table = flame.locator("[aria-label*='moved by more than chance'] tbody tr");
    expect(await table.count()).toBeGreaterThan(0);
    expect(await table.first().locator("td").last().textContent()).toMatch(/^[+-][\d.]+$/);
    await flame.locator(".flame-tools input").fill("tcp");
    expect(await flame.locator("rect.flame-marked").count()).toBeGreaterThan(0);
    await button.click();
    expect(await flame.locator("rect[class^=shift]").count()).toBe(0);
    expect(await flame.locator(".flame-frame rect.flame-found").count()).toBeGreaterThan(0);
  }),
);

test("what stands around a function is drawn, for the mouse and for the keyboard", { timeout: PATIENCE_MS }, () =>
  reading({}, async (page) => {
    const flame = page.locator("#profile .flame").first();
    const heading = flame.locator(".calls h4");
    const before = await heading.textContent();
    const other = flame.locator("[aria-label^='Hottest'] button.function").nth(2);
    const name = (await other.textContent())!;
    await other.focus();
    await page.keyboard.press("Enter");
    expect(await heading.textContent()).toContain(`Around ${name}`);
    expect(await heading.textContent()).not.toBe(before);
    expect(await page.evaluate(() => document.activeElement?.tagName)).toBe("H4");
    expect(await flame.locator(".calls svg").getAttribute("aria-label")).toContain(`Around ${name}: in `);
    const boxes = flame.locator(".calls .call-goes");
    expect(await boxes.count()).toBeGreaterThan(0);
    const caller = (await boxes.first().locator("title").textContent())!.replace(/: [\d.]+ % of all samples.*$/, "");
    await boxes.first().click();
    expect(await heading.textContent()).toContain(`Around ${caller} `);
    await flame.locator(".calls summary").click();
    const callee = flame.locator(".calls tr", { hasText: "is called by it" }).locator("button.function").first();
    const next = await callee.textContent();
    await callee.focus();
    await page.keyboard.press("Enter");
    expect(await heading.textContent()).toContain(`Around ${next} `);
    // A frame of the graph goes there too.
    const frame = flame.locator(".flame-frame").nth(1);
    await frame.click();
    expect(await heading.textContent()).toContain(`Around ${(await frame.locator("title").textContent())!.replace(/: [\d.]+ % of the CPU.*$/, "")} `);
  }),
);

test("an intervention is drawn as throughput against its dose", { timeout: PATIENCE_MS }, () =>
  reading({}, async (page) => {
    const figure = page.locator("#interventions .part", { has: page.locator(".line.sole") }).first();
    await figure.scrollIntoViewIfNeeded();
    expect(await figure.locator(".dot.origin").count()).toBe(1);
    const doses = await figure.locator(".dot.suspect, .dot.control").count();
    expect(doses).toBeGreaterThan(0);
    expect(await figure.locator(".interval").count()).toBe(doses);
    expect(await figure.locator("text.axis").allTextContents()).toEqual(["dose: share by which it was made slower", "change of throughput"]);
    // The curve begins where there is no dose and no change.
    const [origin, start] = [figure.locator(".dot.origin"), await figure.locator(".line.suspect, .line.control").first().getAttribute("d")];
    const [x, y] = /^M([\d.]+),([\d.]+)/.exec(start!)!.slice(1).map(Number);
    expect([x, y]).toEqual([Number(await origin.getAttribute("cx")), Number(await origin.getAttribute("cy"))].map((v) => Number(v.toFixed(1))));
  }),
);

test("gates and what hosts differ in are there for who opens them", { timeout: PATIENCE_MS }, () =>
  reading({}, async (page) => {
    const raw = page.locator("#raw details");
    const gates = raw.filter({ hasText: "Validity gates" });
    await gates.locator("summary").click();
    expect(await gates.locator("tbody tr").count()).toBeGreaterThan(3);
    expect(await gates.locator("tbody td").filter({ hasText: /^\d+ of \d+ trials$/ }).count()).toBeGreaterThan(3);
    const differ = raw.filter({ hasText: "What hosts differ in" });
    await differ.locator("summary").click();
    expect(await differ.locator("tbody tr").count()).toBeGreaterThan(0);
  }),
);

test("theme and language are what the reader chooses", { timeout: PATIENCE_MS }, () =>
  reading({ colorScheme: "light" }, async (page) => {
    const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await paper();
    await page.selectOption("#theme", "dark");
    expect(await paper()).not.toBe(light);
    const title = () => page.locator("#series h2").textContent();
    const english = await title();
    await page.selectOption("#language", "zh");
    expect(await title()).not.toBe(english);
    expect(await page.evaluate(() => document.documentElement.lang)).toBe("zh-Hans");
    expect(await page.locator("h1").count()).toBe(1);
    const names = await page.locator(".figures dt, .grounding li b, #walk li.recorded > details > summary > b").allTextContents();
    expect(names.length).toBeGreaterThan(10);
    const sentences = await page.locator("h1, .support, header .summary, .grounding li > span").allTextContents();
    expect(sentences.length).toBeGreaterThan(5);
    expect([...names, ...sentences].filter((text) => !/\p{Script=Han}/u.test(text))).toEqual([]);
    await page.selectOption("#language", "en");
    expect(await title()).toBe(english);
  }),
);

test("readers who see little can use it, in light and in dark", { timeout: 2 * PATIENCE_MS }, () =>
  reading({}, async (page) => {
    await firstChart(page);
    await isAccessible(page);
  }),
);

test("nothing is cut off on wide and narrow screens", { timeout: PATIENCE_MS }, () => reading({}, (page) => fits(page, "report")));

test("it prints", { timeout: PATIENCE_MS }, () =>
  reading({}, async (page) => {
    await firstChart(page);
    const paper = await page.pdf({ format: "A4", preferCSSPageSize: true, ...(shots ? { path: join(shots, "report.pdf") } : {}) });
    expect(paper.subarray(0, 5).toString()).toBe("%PDF-");
    expect(await page.locator(".host-facts[open]").count(), "pages of facts that nobody opened").toBe(0);
    expect(await page.locator("#raw > details:not(.host-facts, [open])").count(), "what else is folded").toBe(0);
  }),
);
