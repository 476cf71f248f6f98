// The pages of `prony serve` in Debian's chromium, used as a reader uses them, against a real server with a live run.
//
// `PRONY_BIN` names the prony, `PRONY_RUNS` a folder of recorded runs that is copied; `PRONY_SHOTS` a folder for screenshots.

import { spawn, type ChildProcess } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PATIENCE_MS, fits, isAccessible, launch, reading as readingAt } from "./browser";

/** An experiment of a few short trials, with a server that was just started. */
const LIVE_MS = 3 * PATIENCE_MS;

const bin = process.env["PRONY_BIN"];
const recorded = process.env["PRONY_RUNS"];
const folder = mkdtempSync(join(tmpdir(), "prony-serve-"));
const [runs, experiments, stacks] = ["runs", "experiments", "stacks"].map((name) => join(folder, name)) as [string, string, string];

let browser: Browser;
let target: Server;
let prony: ChildProcess;
let base = "";

beforeAll(async () => {
  if (!bin || !recorded) throw new Error("PRONY_BIN must name a prony, and PRONY_RUNS a folder of recorded runs");
  [runs, experiments, stacks].forEach((path) => mkdirSync(path));
  readdirSync(recorded).filter((name) => name.endsWith(".prony")).forEach((name) => cpSync(join(recorded, name), join(runs, name)));
  target = createServer((_, response) => response.end("ok")).listen(0, "127.0.0.1");
  await new Promise((done) => target.once("listening", done));
  const entry = `http://127.0.0.1:${(target.address() as AddressInfo).port}/`;
  const factor = '[[factor]]\nname = "connections"\nworkload = "connections"\nlevels = [1, 2]\n';
  const times = 'repeats = 3\nduration = "1s"\nsettle = "100ms"\n';
  writeFileSync(join(experiments, "connections.toml"), `name = "How many connections"\nstack = "${entry}"\nexpectation = "Two carry more than one."\n${times}\n${factor}`);
  writeFileSync(join(stacks, "shop.toml"), `name = "Shop"\nentry = "${entry}"\n`);
  const args = ["serve", "--bind", "127.0.0.1:0", "--runs", runs, "--experiments", experiments, "--stacks", stacks];
  prony = spawn(bin, args, { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, PRONY_HOME: join(folder, "home") } });
  const [line] = await new Promise<string[]>((done) => createInterface({ input: prony.stdout! }).once("line", (text) => done([text])));
  base = line!.replace("pages at ", "").replace(/\/$/, "");
  browser = await launch();
}, PATIENCE_MS);

afterAll(async () => {
  await browser?.close();
  const ended = new Promise((done) => prony?.once("exit", done));
  prony?.kill("SIGINT");
  await ended;
  target?.close();
  rmSync(folder, { recursive: true, force: true });
}, PATIENCE_MS);

const reading = (path: string, read: (page: Page) => Promise<void>, options: BrowserContextOptions = {}): Promise<void> =>
  readingAt(browser, base + path, new RegExp(`^(${base}/|data:|blob:)`), options, async (page) => {
    await page.locator("footer").waitFor();
    await read(page);
  });

test("runs are found, tagged and chosen", { timeout: PATIENCE_MS }, () =>
  reading("/", async (page) => {
    const rows = page.locator(".runs > li");
    const all = await rows.count();
    expect(all).toBeGreaterThan(10);
    expect(await page.locator(".spark svg").count()).toBeGreaterThan(10);
    await page.locator("input[type=search]").fill("access log");
    await expect.poll(() => rows.count()).toBeLessThan(all);
    expect(page.url()).toContain("q=access+log");
    await rows.first().locator("a").click();
    await page.locator(".tags input").fill("nightly v1.2");
    await page.locator(".tags button").click();
    await page.locator(".said", { hasText: "saved" }).waitFor();
    await page.goto(`${base}/`);
    await page.locator(".filters button", { hasText: "nightly" }).click();
    await expect.poll(() => rows.count()).toBe(1);
    expect(await rows.first().locator(".labels").textContent()).toContain("v1.2");
    await page.locator(".filters button", { hasText: "nightly" }).click();
    await expect.poll(() => rows.count()).toBe(all);
    for (const row of (await rows.all()).slice(0, 2)) await row.locator("input").check();
    await page.locator(".compare-bar a").click();
    await page.locator(".compared > li").first().waitFor();
    expect(await page.locator(".compared > li").count()).toBe(2);
    expect(await page.locator("#carried .line").count()).toBeGreaterThan(1);
  }),
);

test("the CPU profiles of two runs are held against each other", { timeout: PATIENCE_MS }, () =>
  reading("/", async (page) => {
    const list = (await (await page.request.get(`${base}/api/runs?limit=100`)).json()) as { runs: { id: string; cause: string | null }[] };
    const id = (cause: string) => list.runs.find((run) => run.cause === cause)!.id;
    await page.goto(`${base}/compare?runs=${id("offloads-off")},${id("overlay-encapsulation")}`);
    const button = page.locator("#against-1 .flame-difference").first();
    await button.waitFor();
    expect(await button.getAttribute("aria-pressed")).toBe("true");
    expect(await button.textContent()).toContain(id("offloads-off"));
    expect(await page.locator("#against-1 .flame-frame rect[class*=shift-]").count()).toBeGreaterThan(0);
  }),
);

test("a run is its report", { timeout: PATIENCE_MS }, () =>
  reading("/?q=overlay", async (page) => {
    await page.locator(".runs a").first().click();
    await page.locator(".figures").waitFor();
    expect(await page.locator("h1").count()).toBe(1);
    expect(await page.locator(".node.limits").count()).toBe(1);
    await page.locator(".time-chart").first().scrollIntoViewIfNeeded();
    await page.locator(".time-chart canvas").first().waitFor();
    // A drawing keeps its colours when it is taken along, also where no style stands in the page.
    const drawn = page.locator("#curve .drawn");
    await drawn.hover();
    const download = page.waitForEvent("download");
    await drawn.locator(".save button", { hasText: "SVG" }).click();
    expect(readFileSync(await (await download).path(), "utf8")).toMatch(/^<svg .*stroke: rgb/s);
  }),
);

test("an experiment is started, watched live and shows its result", { timeout: LIVE_MS }, () =>
  reading("/experiments", async (page) => {
    expect(await page.locator(".experiments h2").textContent()).toBe("How many connections");
    await page.locator(".acts button").first().click();
    await page.waitForURL(/\/jobs\//);
    const trials = page.locator("#trials circle.dot");
    await trials.first().waitFor({ timeout: PATIENCE_MS });
    const seen = await trials.count();
    await isAccessible(page);
    await fits(page, "live");
    await expect.poll(() => trials.count(), { timeout: PATIENCE_MS }).toBeGreaterThan(seen);
    await page.locator("#result pre").waitFor({ timeout: LIVE_MS });
    expect(await page.locator("#result pre").textContent()).toContain("How many connections");
    expect(await page.locator(".facts").first().textContent()).toContain("ended");
    expect(await page.locator(".live").count()).toBe(0);
    await page.goto(`${base}/experiments`);
    await page.locator("#started td", { hasText: "ended: every cell ran" }).waitFor();
  }),
);

test("an experiment can be stopped", { timeout: LIVE_MS }, () =>
  reading("/experiments", async (page) => {
    await page.locator(".acts button").first().click();
    await page.waitForURL(/\/jobs\//);
    await page.locator("#trials circle.dot").first().waitFor({ timeout: PATIENCE_MS });
    await page.locator(".acts button", { hasText: "Stop" }).click();
    await page.locator(".facts", { hasText: "ended: not every cell ran" }).waitFor({ timeout: PATIENCE_MS });
    expect(await page.locator("#progress pre").textContent()).toContain("finished cells are kept");
  }),
);

test("a stack file says at the line what is wrong", { timeout: PATIENCE_MS }, () =>
  reading("/stacks", async (page) => {
    await page.locator(".checked .note.good").waitFor();
    const area = page.locator("textarea");
    const right = await area.inputValue();
    await area.fill(`${right}[workload]\nconections = 3\n`);
    await page.locator(".lines .wrong").waitFor();
    expect(await page.locator(".lines .wrong").textContent()).toBe("4");
    expect(await page.locator(".messages").textContent()).toContain("did you mean `connections`?");
    await page.locator(".messages button").click();
    expect(await area.evaluate((of: HTMLTextAreaElement) => of.value.slice(of.selectionStart, of.selectionEnd))).toBe("conections = 3");
    await area.fill(`${right}[workload]\nconnections = 3\n`);
    await page.locator(".checked .note.good", { hasText: "3 connections" }).waitFor();
    await page.locator(".acts button", { hasText: "Save" }).last().click();
    await page.locator(".said", { hasText: "saved" }).waitFor();
    expect(readFileSync(join(stacks, "shop.toml"), "utf8")).toContain("connections = 3");
  }),
);

test("theme and language are kept from page to page", { timeout: PATIENCE_MS }, () =>
  reading(
    "/",
    async (page) => {
      const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
      const light = await paper();
      await page.selectOption("#theme", "dark");
      expect(await paper()).not.toBe(light);
      const english = await page.locator("h1").textContent();
      await page.selectOption("#language", "zh");
      await expect.poll(() => page.locator("h1").textContent()).not.toBe(english);
      await page.goto(`${base}/experiments`);
      await page.locator("footer").waitFor();
      expect(await page.evaluate(() => document.documentElement.lang)).toBe("zh-Hans");
      expect(await paper()).not.toBe(light);
    },
    { colorScheme: "light" },
  ),
);

test("every page can be used by readers who see little, and fits wide and narrow screens", { timeout: 3 * PATIENCE_MS }, () =>
  reading("/", async (page) => {
    const list = (await (await page.request.get(`${base}/api/runs?limit=3`)).json()) as { runs: { id: string; stack: string }[] };
    const [first, second] = list.runs as [{ id: string; stack: string }, { id: string }];
    const places: [string, string][] = [
      ["runs", "/"],
      ["run", `/runs/${first.id}`],
      ["compare", `/compare?runs=${first.id},${second.id}`],
      ["history", `/history?stack=${encodeURIComponent(first.stack)}`],
      ["experiments", "/experiments"],
      ["stacks", "/stacks"],
    ];
    for (const [name, path] of places) {
      await page.goto(base + path);
      await page.locator("footer").waitFor();
      await isAccessible(page);
      await fits(page, name);
    }
  }),
);

test("what is not there is said", { timeout: PATIENCE_MS }, async () => {
  const page = await browser.newPage();
  await page.goto(`${base}/runs/nothing`);
  await page.locator("[role=alert]", { hasText: "there is no run `nothing`" }).waitFor();
  await page.close();
});
