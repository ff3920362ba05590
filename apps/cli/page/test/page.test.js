// The page in a real browser: a plan's page (PAGE, made by `polychip partition --html`) and one of a thousand nodes.
//
// `cargo xtask page` runs this with what it needs: PAGE, COMPARED (the same plan beside another), AT_ONCE (one for devices
// at once), CHROMIUM (the browser's program), OUT (a folder for screenshots), and PICTURES where those of the guide are to
// be made anew. No time is asserted; what a thousand and ten thousand nodes take to open is printed.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

import { time } from "../src/figures.js";
import { boxes, folded, repeats } from "../src/folding.js";
import { data, page as filled, read } from "./thousand.js";

const { PAGE, COMPARED, AT_ONCE, CHROMIUM, OUT, PICTURES } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const template = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../src/page/page.html");
let browser;

before(async () => {
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** Opens a file, with what went wrong or over the network in lists that must stay empty. */
async function open(file, colorScheme = "light", [width, height] = [1280, 900]) {
  const context = await browser.newContext({ colorScheme, viewport: { width, height } });
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
    /** A picture of the guide, small: WebP, which only the browser's own protocol makes. */
    picture: async (name) => {
      if (!PICTURES) return;
      const session = await context.newCDPSession(page);
      const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 60 });
      writeFileSync(path.join(PICTURES, `${name}.webp`), Buffer.from(data, "base64"));
    },
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

const columns = ["number", "name", "op", "device", "cost alone", "provenance"];
const title = (page) => page.textContent("#details-title");
const view = (page) => page.getAttribute("#graph > g", "transform");

test("what repeats is folded, and edges lead on", () => {
  const runs = (text) => repeats(text.split("")).map(({ start, period, times }) => [text.slice(start, start + period), times]);
  assert.deepEqual(runs("xababaybc"), [["x", 1], ["ab", 2], ["a", 1], ["y", 1], ["b", 1], ["c", 1]]);
  assert.deepEqual(runs("abcdabcdabcd"), [["abcd", 3]]);
  assert.deepEqual(runs("aaaa"), [["a", 4]]);
  assert.deepEqual(runs("abc"), [["a", 1], ["b", 1], ["c", 1]]);
  assert.deepEqual(runs(""), []);
  // two parts, by turns, three times; the first has a block of two nodes three times
  const nodes = [];
  const parts = [];
  for (let part = 0; part < 6; part += 1) {
    parts.push({ device: part % 2 ? "b" : "a" });
    for (const op of part % 2 ? ["Last"] : ["Conv", "Relu", "Conv", "Relu", "Conv", "Relu"]) nodes.push({ op, part });
  }
  const edges = nodes.slice(1).map((_, index) => [index, index + 1]);
  const folds = folded(nodes, parts);
  const shut = boxes(folds, edges, nodes.length, new Set());
  assert.deepEqual(shut.boxes.map(({ kind, times, nodes: all }) => [kind, times, all.length]), [["part", 3, 18], ["part", 3, 3]]);
  assert.deepEqual(shut.edges, [[0, 1]]);
  assert.ok(shut.boxOf.every((box, node) => shut.boxes[box].nodes.includes(node)));
  const first = [...folds.blocks.get(0)].find((run) => run.times > 1);
  const wide = boxes(folds, edges, nodes.length, new Set(["part 0", `block 0.${first.start}`]));
  assert.equal(new Set(wide.boxes.flatMap((box) => box.nodes)).size, nodes.length);
  assert.ok(wide.edges.every(([from, to]) => from < to));
});

test("the first screen says what there is to know", async () => {
  const { page, shot, picture, close } = await open(PAGE);
  const { verdict, report, devices, unlocks, certificate, comparisons } = read(PAGE);
  const plain = async (where) => (await page.textContent(where)).replaceAll("\u00a0", " ");
  assert.equal(await plain("#verdict"), verdict);
  assert.ok(verdict.includes(certificate) && (await plain("#costs")).includes(certificate));
  // what a rule takes so many times as much of
  for (const [rule, words] of comparisons) assert.match(`${rule}: ${words}`, /(times as much (time|energy)|not possible)/);
  for (const [, words] of comparisons) assert.ok((await plain("#costs")).includes(words), words);
  for (const device of devices.filter((found) => found.nodes > 0)) {
    // by what it calls itself
    assert.match(device.label, /^(big core|graphics|neural) \(null:\d\)$/);
    for (const where of ["#devices-body", "#timeline-chart", "#verdict"]) assert.ok((await plain(where)).includes(device.label), `${where}: ${device.label}`);
  }
  const cost = (part) => part.cost.time_ps + part.launch_ps;
  const dearest = [...report.parts].sort((a, b) => cost(b) - cost(a)).slice(0, 3).map((part) => `Part ${part.part}`);
  assert.deepEqual(await page.locator("#dearest-body button").allTextContents(), dearest);
  const first = await page.locator("#unlocks-first li").allTextContents();
  assert.equal(first.length, Math.min(3, unlocks.length));
  first.forEach((words, index) => assert.ok(words.replaceAll("\u00a0", " ").includes(`would save ${unlocks[index].words}`), words));
  // all of it before the first scroll
  for (const where of ["#verdict", "#devices-body", "#dearest-body", "#unlocks-first", "#timeline-chart"]) {
    const { y, height } = await page.locator(where).boundingBox();
    assert.ok(y + height <= 900, `${where} ends at ${y + height}`);
  }
  await page.locator("#dearest-body button").first().click();
  assert.equal(await title(page), dearest[0]);
  await page.evaluate(() => scrollTo(0, 0));
  await shot("light");
  await picture("page");
  await close();
});

test("singular and plural are right, and no line ends between a figure and its unit", async () => {
  for (const file of [PAGE, COMPARED, AT_ONCE]) {
    const { page, close } = await open(file);
    await page.locator("#timeline summary").click();
    await page.waitForSelector("#timeline-table tbody tr");
    const text = await page.evaluate(() => document.body.innerText);
    assert.doesNotMatch(text, /(^|[^\d.,])1\s(nodes|parts|devices)\b/);
    assert.doesNotMatch(text, /(^|\s)(0|[2-9]|\d\d+)\s(node|part|device)\b/);
    assert.doesNotMatch(text, /\d (ps|ns|µs|ms|s|nJ|µJ|mJ|J|KiB|MiB|W|%)(?![\p{L}\d])/u);
    await close();
  }
});

test("a plan for devices at once shows when a run ends", async () => {
  const { page, close } = await open(AT_ONCE);
  const { report, ends_ps, verdict, certificate } = read(AT_ONCE);
  const makespan = report.schedule.makespan_ps;
  assert.equal(ends_ps, makespan);
  assert.ok(makespan <= report.totals.time_ps);
  const words = time(makespan).replaceAll("\u00a0", " ");
  assert.ok(verdict.startsWith(`A run takes ${words}`) && verdict.includes("concurrent devices"), verdict);
  assert.ok((await page.textContent("#costs")).replaceAll("\u00a0", " ").includes(`run time with concurrent devices${words}`));
  // the certificate is about the plan as it stands
  assert.ok(!certificate.includes("before merging"));
  await close();
});

test("two plans side by side", async () => {
  const { page, shot, picture, close } = await open(COMPARED);
  const { against, nodes } = read(COMPARED);
  const plain = async (where) => (await page.textContent(where)).replaceAll("\u00a0", " ");
  assert.ok(against.moved.length > 0);
  assert.equal((await plain("#against-first")).toLowerCase(), `${against.headline}.`.toLowerCase());
  assert.equal(await page.locator("#against-chart svg").count(), 1);
  assert.equal(await page.locator("#against-body tbody tr").count(), 2);
  await page.click("#unfold");
  assert.ok((await page.locator("#graph .node.moved").count()) > 0);
  await page.check("#filter-moved");
  assert.equal(await plain("#filter-count"), `${against.moved.length} of ${nodes.length} nodes`);
  assert.equal(await page.locator("#nodes-table tbody .was").count(), against.moved.length);
  await page.evaluate(() => scrollTo(0, 0));
  await shot("compared");
  await picture("page-compared");
  assert.deepEqual(await violations(page), []);
  await close();
});

test("a click on a node shows why it is where it is", async () => {
  const { page, shot, close } = await open(PAGE);
  const { nodes, devices, report } = read(PAGE);
  await page.click("#fold");
  assert.ok((await page.locator("#graph .node").count()) <= report.parts.length);
  await page.click("#unfold");
  // each box stands for as many nodes as it says
  const counts = await page.locator("#graph .node").evaluateAll((all) => all.map((box) => box.__data__.nodes.length));
  assert.equal(counts.reduce((a, b) => a + b, 0), nodes.length);
  await page.locator("#graph .node.is-node").first().click();
  const node = nodes[await page.locator("#graph .node.chosen").evaluate((box) => box.__data__.nodes[0])];
  assert.equal(await title(page), node.name || `node ${node.node}`);
  const details = await page.textContent("#details-body");
  for (const device of devices) assert.ok(details.includes(device.label), device.label);
  for (const other of node.alternatives) assert.ok(details.includes(other.words), other.words);
  assert.ok(details.includes(report.parts[node.part].id));
  assert.ok(!devices.some((device) => device.emulated) || details.includes("emulated"));
  // a neighbour's button goes on
  await page.locator("#details-body ul:last-of-type button").first().click();
  assert.notEqual(await title(page), node.name);
  await shot("details");
  await close();
});

test("parts and blocks open and fold", async () => {
  const { page, close } = await open(PAGE);
  await page.click("#fold");
  const shut = await page.locator("#graph .node").count();
  // the part with the most nodes: a small one may be a single box when open, too
  const sizes = await page.locator("#graph .node.is-part").evaluateAll((all) => all.map((box) => box.__data__.nodes.length / box.__data__.times));
  const large = sizes.indexOf(Math.max(...sizes));
  await page.locator("#graph .node.is-part").nth(large).click();
  assert.match(await title(page), /^Part \d+$/);
  await page.click("#details .turn");
  assert.ok((await page.locator("#graph .node").count()) > shut);
  await page.click("#details .turn");
  assert.equal(await page.locator("#graph .node").count(), shut);
  await page.locator("#graph .node.is-part").nth(large).dblclick();
  assert.ok((await page.locator("#graph .node").count()) > shut);
  await close();
});

test("a search finds nodes by name, op and number", async () => {
  const { page, close } = await open(PAGE);
  const { nodes } = read(PAGE);
  await page.fill("#find", nodes[3].name);
  await page.locator("#found button").first().click();
  assert.ok((await title(page)).includes(nodes[3].name));
  await page.fill("#find", "no such node");
  assert.match(await page.textContent("#found"), /no node with that name/);
  await close();
});

test("the timeline, costs and unlocks are there", async () => {
  const { page, shot, close } = await open(PAGE);
  const { report, timeline, devices } = read(PAGE);
  await page.locator("#timeline summary").click();
  await page.waitForSelector("#timeline-table tbody tr");
  assert.equal(await page.locator("#timeline-table tbody tr").count(), timeline.length);
  assert.ok((await page.locator("#timeline-chart rect").count()) >= report.parts.length);
  assert.equal(await page.locator("#costs table").count(), 4);
  assert.ok((await page.textContent("#verdict")).includes("emulated"));
  assert.ok(devices.length >= 3);
  await page.locator("#unlocks").scrollIntoViewIfNeeded();
  await shot("unlocks");
  await close();
});

test("the filter leaves what it names", async () => {
  const { page, shot, close } = await open(PAGE);
  const { nodes } = read(PAGE);
  const shown = () => page.locator("#nodes-table tbody tr").count();
  assert.equal(await shown(), nodes.length);
  const op = nodes[0].op;
  await page.fill("#filter-text", op);
  const named = nodes.filter((node) => `${node.name}\n${node.op}`.toLowerCase().includes(op.toLowerCase())).length;
  assert.equal(await shown(), named);
  assert.equal(await page.textContent("#filter-count"), `${named} of ${nodes.length}\u00a0nodes`);
  const out = await page.locator("#graph .node.out").evaluateAll((all) => all.flatMap((box) => box.__data__.nodes));
  assert.ok(out.every((node) => !`${nodes[node].name}\n${nodes[node].op}`.toLowerCase().includes(op.toLowerCase())));
  assert.ok(out.length > 0);
  await page.locator("#nodes").scrollIntoViewIfNeeded();
  await shot("filter");
  await page.click("#filter button[type=reset]");
  await page.waitForFunction((count) => document.querySelectorAll("#nodes-table tbody tr").length === count, nodes.length);
  await page.selectOption("#filter-reason", "unsupported");
  const refused = nodes.filter((node) => node.alternatives.some((other) => other.kind === "unsupported")).length;
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
  const { nodes } = read(PAGE);
  const active = () => page.evaluate(() => document.activeElement.id || document.activeElement.getAttribute("class") || document.activeElement.textContent);
  const stops = [];
  for (let step = 0; step < 40; step += 1) {
    await page.keyboard.press("Tab");
    stops.push(await active());
    if (stops.at(-1).startsWith("node")) break;
  }
  assert.equal(stops[0], "skip");
  assert.deepEqual(stops.slice(-7, -1), ["zoom-in", "zoom-out", "zoom-fit", "unfold", "fold", "find"]);
  assert.match(stops.at(-1), /^node/);
  await page.click("#unfold");
  await page.locator("#graph .node[tabindex='0']").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const chosen = await page.locator("#graph .node.chosen").evaluate((box) => box.__data__);
  assert.ok(chosen.nodes[0] > 0);
  await page.keyboard.press("End");
  await page.keyboard.press(" ");
  assert.equal(await title(page), nodes.at(-1).name || `node ${nodes.length - 1}`);
  await shot("keyboard");
  // one stop for the whole graph
  await page.keyboard.press("Tab");
  assert.doesNotMatch(await active(), /^node/);
  await close();
});

for (const scheme of ["light", "dark"]) {
  test(`accessible in the ${scheme} scheme`, async () => {
    const { page, shot, picture, close } = await open(PAGE, scheme);
    await page.locator("#graph .node").nth(1).click();
    await page.evaluate(() => scrollTo(0, 0));
    await shot(`${scheme}-chosen`);
    if (scheme === "dark") await picture("page-dark");
    await page.locator("#graph-section").scrollIntoViewIfNeeded();
    await page.evaluate(() => document.getElementById("graph-section").scrollIntoView());
    await shot(`${scheme}-graph`);
    if (scheme === "light") await picture("page-graph");
    assert.deepEqual(await violations(page), []);
    await close();
  });
}

test("nothing is cut off on a narrow screen", async () => {
  const { page, shot, picture, close } = await open(PAGE, "light", [420, 900]);
  // what is wider than the screen scrolls by itself, never the whole page
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 420);
  await shot("narrow");
  await picture("page-narrow");
  assert.deepEqual(await violations(page), []);
  await close();
});

test("what was measured of a node is told apart from what its cost is", async () => {
  const file = path.join(OUT, "measured.html");
  const all = data(200);
  writeFileSync(file, filled(template, all));
  const { page, shot, close } = await open(file);
  const cells = (await page.locator("#nodes-table tbody tr td:nth-child(7)").allTextContents()).map((text) => text.replaceAll("\u00a0", " "));
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
  assert.deepEqual(await other.page.locator("#nodes-table thead th").allTextContents(), [...columns, "why not elsewhere"]);
  await other.close();
});

for (const count of [1000, 10_000]) {
  test(`${count} nodes open, and names are text`, async () => {
    const file = path.join(OUT, `${count}.html`);
    writeFileSync(file, filled(template, data(count)));
    const start = performance.now();
    const { page, shot, close } = await open(file);
    const size = readFileSync(file).length;
    console.log(`${count} nodes: open in ${Math.round(performance.now() - start)} ms, ${Math.round(size / 1000)} kB`);
    assert.ok(size <= 1_000_000, `${size} bytes`);
    assert.equal(await page.evaluate(() => typeof hit), "undefined");
    assert.ok((await page.textContent("#nodes-table")).includes("</script><img src=x onerror=hit=1>"));
    assert.equal(await page.isVisible("#front"), true);
    // a table of so many rows is made as far as somebody reads it
    assert.equal(await page.locator("#nodes-table tbody tr").count(), 200);
    await page.locator("#nodes-table > button").click();
    assert.equal(await page.locator("#nodes-table tbody tr").count(), 400);
    await page.fill("#filter-text", "block7/");
    assert.equal(await page.textContent("#filter-count"), `9 of ${count}\u00a0nodes`);
    await page.click("#zoom-fit");
    await shot(`${count}`);
    await page.locator("#front").scrollIntoViewIfNeeded();
    await shot("front");
    await close();
  });
}
