// The page of a device farm in a real browser: three snapshots of two boards (FARM, made by `polychip farm report --html`).
//
// `cargo xtask page` runs this with what it needs: FARM, CHROMIUM (the browser's program) and OUT (a folder for
// screenshots). The figures are made up; one model became slower on one board, one is unsupported on the other.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

const { FARM, CHROMIUM, OUT } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;

before(async () => {
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** Opens the page, with what went wrong or over the network in lists that must stay empty. */
async function open(colorScheme = "light", options = {}) {
  const context = await browser.newContext({ colorScheme, viewport: { width: 1400, height: 1000 }, ...options });
  const page = await context.newPage();
  const [errors, requests] = [[], []];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("dialog", (dialog) => errors.push(`dialog: ${dialog.message()}`));
  const address = pathToFileURL(FARM).href;
  page.on("request", (request) => {
    if (!request.url().startsWith(address) && !request.url().startsWith("data:")) requests.push(request.url());
  });
  await page.goto(address);
  const close = async () => {
    assert.deepEqual(errors, []);
    assert.deepEqual(requests, []);
    await context.close();
  };
  return { page, close };
}

test("the page is small and needs no script", async () => {
  const text = readFileSync(FARM, "utf8");
  assert.ok(text.length <= 1_000_000, `${text.length} characters`);
  assert.ok(!/<script/i.test(text));
  const { page, close } = await open("light", { javaScriptEnabled: false });
  assert.equal(await page.textContent("h1"), "Device farm: pull");
  await close();
});

test("models by boards, with what became slower, what is unsupported, and what is emulated", async () => {
  const { page, close } = await open();
  const heads = await page.locator(".matrix thead th").allInnerTexts();
  assert.deepEqual(heads, ["item", "SM8650", "virt emulated"]);
  const row = (name) => page.locator(".matrix tbody tr", { hasText: name });
  const slower = await row("bench resnet50").locator("td").first().innerText();
  assert.match(slower, /slower/);
  assert.match(slower, /ms/);
  assert.match(slower, /estimated/);
  assert.match(slower, /npu:0 80 %/);
  const emulated = row("bench resnet50").locator("td").nth(1);
  assert.match(await emulated.innerText(), /emulated/);
  assert.doesNotMatch(await emulated.innerText(), /slower/);
  const nasty = await row("onerror").locator("td").nth(1).innerText();
  assert.match(nasty, /unsupported/);
  assert.match(nasty, /<b>nothing<\/b>/);
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await row("bench mobilenet_v2").locator("svg.history").count(), 2);
  const changes = await page.locator("#changes tbody tr").first().innerText();
  assert.match(changes, /slower\s+bench resnet50.*\+[78]\.\d % \[/s);
  const troubles = await page.locator("#snapshots ul").innerText();
  assert.match(troubles, /the last record was cut off/);
  assert.match(troubles, /board cellar never answered/);
  await page.screenshot({ path: path.join(OUT, "farm.png"), fullPage: true });
  await close();
});

test("a cell leads to its details", async () => {
  const { page, close } = await open();
  const cell = page.locator(".matrix tbody tr", { hasText: "bench resnet50" }).locator("td a").first();
  const target = (await cell.getAttribute("href")).slice(1);
  await cell.click();
  const details = page.locator(`[id="${target}"]`);
  await details.locator("summary").click();
  const text = await details.innerText();
  for (const words of ["latency", "95 %", "pull on desk by 0.1.0", "npu:0", "Softmax", "rank not offered", "night-1", "night-2"]) {
    assert.ok(text.includes(words), `${words} is not in ${text}`);
  }
  await close();
});

test("no rule of accessibility is broken, light and dark", async () => {
  for (const scheme of ["light", "dark"]) {
    // axe is run from outside: the page's own policy lets no script in
    const { page, close } = await open(scheme, { bypassCSP: true });
    await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
    await page.evaluate(axe);
    const found = await page.evaluate(() =>
      axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }),
    );
    const words = found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target).slice(0, 3).join(" | ")}`);
    assert.deepEqual(words, [], scheme);
    if (scheme === "dark") await page.screenshot({ path: path.join(OUT, "farm-dark.png"), fullPage: true });
    await close();
  }
});
