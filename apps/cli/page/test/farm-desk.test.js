// The report of a device farm on one machine in a real browser: real and emulated boards, measured twice (FARM, made by
// `polychip farm report --html`; EXPECTATIONS says what was measured on which boards).
//
// `cargo xtask farm-desk` runs this with what it needs: FARM, EXPECTATIONS, CHROMIUM (the browser's program) and OUT (a
// folder for screenshots). Without FARM there is nothing to look at.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

const { FARM, EXPECTATIONS, CHROMIUM, OUT } = process.env;

describe("the report of a farm on one machine", { skip: EXPECTATIONS ? false : "EXPECTATIONS names no file" }, () => {
  const expected = EXPECTATIONS ? JSON.parse(readFileSync(EXPECTATIONS, "utf8")) : {};
  const [errors, requests] = [[], []];
  let browser;
  let page;

  before(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
    page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
    page.on("pageerror", (error) => errors.push(String(error)));
    const address = pathToFileURL(FARM).href;
    page.on("request", (request) => {
      if (!request.url().startsWith(address) && !request.url().startsWith("data:")) requests.push(request.url());
    });
    await page.goto(address);
  });
  after(() => browser?.close());

  /** Columns of boards, each with whether it is labelled as emulated. */
  const columns = async () => {
    const heads = await page.locator(".matrix thead th").allInnerTexts();
    return heads.slice(1).map((head) => /\bemulated\b/.test(head));
  };

  test("the newest run is shown, a column per kind of board, those of emulated boards labelled", async () => {
    assert.equal(await page.textContent("h1"), `Device farm: ${expected.runs.at(-1)}`);
    const kinds = [expected.real, expected.emulated].filter((boards) => boards.length > 0);
    assert.deepEqual((await columns()).sort(), kinds.map((boards) => boards === expected.emulated).sort());
  });

  test("each model has a time on each kind of board, labelled where that is emulated", async () => {
    const labels = await columns();
    for (const model of expected.models) {
      for (const job of expected.jobs) {
        const row = page.locator(".matrix tbody tr").filter({ has: page.getByText(new RegExp(`^${job} ${model} on cpu\\b`)) });
        assert.equal(await row.count(), 1, `rows of ${job} ${model}`);
        const cells = await row.locator("td").allInnerTexts();
        assert.equal(cells.length, labels.length, `${job} ${model}`);
        for (const [index, cell] of cells.entries()) {
          assert.doesNotMatch(cell, /failed|unsupported|not done/, `${job} ${model}`);
          if (job === "bench") assert.match(cell, /\d\s*(ns|µs|ms|s)\b/, `${job} ${model}`);
          assert.equal(/\bemulated\b/.test(cell), labels[index], `${job} ${model}: ${cell}`);
        }
      }
    }
  });

  test("the details of an item name every board, both runs and the builds that measured", async () => {
    await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
    const text = await page.locator("body").innerText();
    for (const board of [...expected.real, ...expected.emulated]) {
      assert.match(text, new RegExp(`${expected.runs.at(-1)} on ${board} by \\d`), board);
    }
    for (const run of expected.runs) assert.ok(text.includes(run), run);
  });

  test("nothing failed in the browser, and nothing was asked of a network", async () => {
    await page.screenshot({ path: path.join(OUT, "report.png"), fullPage: true });
    assert.deepEqual([errors, requests], [[], []]);
  });
});
