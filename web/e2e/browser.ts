// What tests in a browser have in common: chromium, a page that must not complain, and axe.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { expect } from "vitest";

/** A test that hangs says so; a guess, far above what each takes. */
export const PATIENCE_MS = 60_000;

/** A folder that gets screenshots. */
export const shots = process.env["PRONY_SHOTS"];

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

export const launch = (): Promise<Browser> =>
  chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });

/** Opens a page, hands it over, and fails when it complained meanwhile, or asked for what is not `own`. */
export async function reading(browser: Browser, url: string, own: RegExp, options: BrowserContextOptions, read: (page: Page) => Promise<void>): Promise<void> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("request", (request) => own.test(request.url()) || complaints.push(`asked for ${request.url()}`));
  await page.goto(url);
  await read(page);
  expect(complaints).toEqual([]);
  await context.close();
}

/** Fails when axe finds something serious, in light or in dark. */
export async function isAccessible(page: Page): Promise<void> {
  // Through the protocol, because a page may allow no script that it does not know.
  await page.evaluate(await readFile(axe, "utf8"));
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await page.evaluate(violations), colorScheme).toEqual([]);
  }
}

/** Runs inside the page: what axe finds serious, with the places. */
async function violations(): Promise<string[]> {
  interface Violation {
    id: string;
    impact: string;
    nodes: { target: string[]; failureSummary: string }[];
  }
  const { axe } = window as unknown as { axe: { run(options: object): Promise<{ violations: Violation[] }> } };
  const serious = (await axe.run({ resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] })).violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return serious.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`);
}

/** Fails when something is wider than the screen, on wide and narrow screens; takes the pictures. */
export async function fits(page: Page, name: string): Promise<void> {
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 900 });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await page.evaluate(() => document.documentElement.scrollWidth), `${name}, ${width}`).toBe(width);
      if (shots) await page.screenshot({ path: `${shots}/${name}-${colorScheme}-${width}.png` });
    }
  }
  await page.setViewportSize({ width: 1440, height: 900 });
}
