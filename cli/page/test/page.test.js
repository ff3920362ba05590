// The page in a real browser: a plan's page (PAGE, made by `polychip partition --html`) and one of a thousand nodes.
//
// `cargo xtask page` runs this with what it needs: PAGE, CHROMIUM (the browser's program) and OUT (a folder for
// screenshots). No time is asserted; the time to open a thousand nodes is printed.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

import { data, page as filled } from "./thousand.js";

const { PAGE, CHROMIUM, OUT } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const template = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../src/page/page.html");
let browser;

before(async () => {
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** Opens a file, with what went wrong or over the network in lists that must stay empty. */
async function open(file, colorScheme = "light") {
  const context = await browser.newContext({ colorScheme, viewport: { width: 1400, height: 1000 } });
  const page = await context.newPage();
  const [errors, requests] = [[], []];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  const address = pathToFileURL(file).href;
  page.on("request", (request) => {
    if (request.url() !== address && !request.url().startsWith("data:")) requests.push(request.url());
  });
  await page.goto(address);
  await page.waitForSelector("html[data-ready=yes]");
  return {
    page,
    shot: (name) => page.screenshot({ path: path.join(OUT, `${name}.png`) }),
    close: async () => {
      assert.deepEqual(errors, []);
      assert.deepEqual(requests, []);
      await context.close();
    },
  };
}

/** What the accessibility rules of WCAG 2.2 A and AA find. */
async function violations(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  return found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.target} ${node.failureSummary}`).slice(0, 3).join(" | ")}`);
}

const read = (file) => JSON.parse(readFileSync(file, "utf8").match(/id="data">(.*?)<\/script>/s)[1]);
const title = (page) => page.textContent("#details-title");
const view = (page) => page.getAttribute("#graph > g", "transform");

test("a click on a node shows why it is where it is", async () => {
  const { page, shot, close } = await open(PAGE);
  const { nodes, devices, report } = read(PAGE);
  assert.equal(await page.locator("#graph .node").count(), nodes.length);
  assert.equal(await page.locator("#legend .label").count(), devices.filter((device) => device.emulated).length);
  await shot("light");
  const node = nodes[1];
  await page.locator("#graph .node").nth(1).click();
  assert.equal(await title(page), node.name || "node 1");
  const details = await page.textContent("#details-body");
  for (const device of devices) assert.ok(details.includes(device.name), device.name);
  for (const other of node.alternatives) assert.ok(details.includes(other.words), other.words);
  assert.ok(details.includes(report.parts[node.part].id));
  assert.ok(!devices.some((device) => device.emulated) || details.includes("emulated"));
  // a neighbour's button goes on
  await page.locator("#details-body ul button").first().click();
  assert.notEqual(await title(page), node.name);
  await shot("details");
  await close();
});

test("the timeline, costs and unlocks are there", async () => {
  const { page, shot, close } = await open(PAGE);
  const { report, timeline, devices } = read(PAGE);
  assert.equal(await page.locator("#timeline-table tbody tr").count(), timeline.length);
  assert.ok((await page.locator("#timeline-chart rect").count()) >= report.parts.length);
  assert.equal(await page.locator("#costs table").count(), 4);
  assert.ok((await page.textContent("#summary")).includes("emulated"));
  assert.ok(devices.length >= 3);
  await page.locator("#timeline").scrollIntoViewIfNeeded();
  await shot("timeline");
  await page.locator("#unlocks").scrollIntoViewIfNeeded();
  await shot("unlocks");
  await close();
});

test("the filter leaves what it names", async () => {
  const { page, shot, close } = await open(PAGE);
  const { nodes } = read(PAGE);
  const shown = () => page.locator("#nodes-table tbody tr:not([hidden])").count();
  assert.equal(await shown(), nodes.length);
  const op = nodes[0].op;
  await page.fill("#filter-text", op);
  const named = nodes.filter((node) => `${node.name}\n${node.op}`.toLowerCase().includes(op.toLowerCase())).length;
  assert.equal(await shown(), named);
  assert.equal(await page.textContent("#filter-count"), `${named} of ${nodes.length} nodes`);
  assert.equal(await page.locator("#graph .node.out").count(), nodes.length - named);
  await page.locator("#nodes").scrollIntoViewIfNeeded();
  await shot("filter");
  await page.click("#filter button[type=reset]");
  await page.waitForFunction((count) => document.querySelectorAll("#nodes-table tbody tr:not([hidden])").length === count, nodes.length);
  await page.selectOption("#filter-reason", "unsupported");
  const refused = nodes.filter((node) => node.alternatives.some((other) => other.reason.kind === "unsupported")).length;
  assert.equal(await shown(), refused);
  await page.selectOption("#filter-reason", "");
  await page.check("#filter-off");
  const off = nodes.filter((node) => node.alternatives.some((other) => other.cost && other.cost.time_ps < node.cost.time_ps)).length;
  assert.equal(await shown(), off);
  // a name in the table leads to the details, which take the focus
  await page.uncheck("#filter-off");
  await page.locator("#nodes-table tbody button").nth(2).click();
  assert.equal(await title(page), nodes[2].name || "node 2");
  assert.equal(await page.evaluate(() => document.activeElement.id), "details");
  await close();
});

test("zoom by button, wheel and key", async () => {
  const { page, shot, close } = await open(PAGE);
  const seen = [await view(page)];
  const changed = async () => {
    seen.push(await view(page));
    assert.notEqual(seen.at(-1), seen.at(-2));
  };
  await page.click("#zoom-in");
  await changed();
  await page.click("#zoom-out");
  await changed();
  await page.hover("#graph");
  await page.mouse.wheel(0, -300);
  await page.waitForFunction((before) => document.querySelector("#graph > g").getAttribute("transform") !== before, seen.at(-1));
  await changed();
  await page.click("#zoom-fit");
  await changed();
  await shot("all");
  await page.locator("#graph .node[tabindex='0']").focus();
  await page.keyboard.press("+");
  await changed();
  await close();
});

test("keys alone lead everywhere", async () => {
  const { page, shot, close } = await open(PAGE);
  const { nodes, edges } = read(PAGE);
  const active = () => page.evaluate(() => document.activeElement.id || document.activeElement.getAttribute("class") || document.activeElement.textContent);
  const stops = [];
  for (let step = 0; step < 20; step += 1) {
    await page.keyboard.press("Tab");
    stops.push(await active());
    if (stops.at(-1) === "node") break;
  }
  assert.equal(stops[0], "skip");
  assert.deepEqual(stops.slice(-4), ["zoom-in", "zoom-out", "zoom-fit", "node"]);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const [, next] = edges.find(([from]) => from === 0);
  assert.equal(await title(page), nodes[next].name || `node ${next}`);
  await page.keyboard.press("End");
  await page.keyboard.press(" ");
  assert.equal(await title(page), nodes.at(-1).name || `node ${nodes.length - 1}`);
  await shot("keyboard");
  // one stop for the whole graph
  await page.keyboard.press("Tab");
  assert.notEqual(await active(), "node");
  await close();
});

for (const scheme of ["light", "dark"]) {
  test(`accessible in the ${scheme} scheme`, async () => {
    const { page, shot, close } = await open(PAGE, scheme);
    await page.locator("#graph .node").nth(1).click();
    await shot(`${scheme}-chosen`);
    assert.deepEqual(await violations(page), []);
    await close();
  });
}

test("what was measured of a node is told apart from what its cost is", async () => {
  const file = path.join(OUT, "measured.html");
  const all = data(200);
  writeFileSync(file, filled(template, all));
  const { page, shot, close } = await open(file);
  const cells = await page.locator("#nodes-table tbody tr td:nth-child(7)").allTextContents();
  for (const [index, node] of all.nodes.entries()) {
    if (!node.measured) assert.equal(cells[index], "no step measured");
    else assert.ok(cells[index].startsWith(node.measured.with.length ? `1.500 µs, in one step with other${index} and 1 more (measured` : "1.500 µs (measured"), cells[index]);
    assert.equal(cells[index].endsWith("plain loops"), Boolean(node.measured?.is_reference));
  }
  const slow = all.nodes.find((node) => node.measured?.is_reference);
  await page.locator("#nodes-table tbody button").nth(slow.node).click();
  assert.match(await page.textContent("#details-body"), /measured.*plain loops/s);
  assert.deepEqual(await violations(page), []);
  await shot("measured");
  await close();
  // and where nothing was, there is no column of it
  const other = await open(PAGE);
  assert.equal(await other.page.locator("#nodes-table thead th").count(), 7);
  await other.close();
});

test("a thousand nodes open, and names are text", async () => {
  const file = path.join(OUT, "thousand.html");
  writeFileSync(file, filled(template, data(1000)));
  const start = performance.now();
  const { page, shot, close } = await open(file);
  console.log(`1000 nodes: open in ${Math.round(performance.now() - start)} ms, ${Math.round(readFileSync(file).length / 1024)} KiB`);
  assert.equal(await page.locator("#graph .node").count(), 1000);
  assert.equal(await page.evaluate(() => typeof hit), "undefined");
  assert.ok((await page.textContent("#nodes-table")).includes("</script><img src=x onerror=hit=1>"));
  assert.equal(await page.isVisible("#front"), true);
  await page.fill("#filter-text", "block7/");
  assert.equal(await page.textContent("#filter-count"), "9 of 1000 nodes");
  await page.click("#zoom-fit");
  await shot("thousand");
  await page.locator("#front").scrollIntoViewIfNeeded();
  await shot("front");
  await close();
});
