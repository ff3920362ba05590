// Fills the page from the data in it.

import { front, timeline } from "./charts.js";
import { read } from "./data.js";
import { patterns, styled } from "./devices.js";
import { badge, element, table } from "./dom.js";
import { bytes, costTime, count, energy, origin, provenance, time, whole } from "./figures.js";
import { draw } from "./graph.js";
import { details, folding, list, nameOf, passes, search } from "./nodes.js";
import { against, dearest, devices as usage, unlocks } from "./summary.js";

const data = await read();
const at = (id) => document.getElementById(id);
// devices of the plan that this one is compared with stand behind its own
const other = (data.against?.devices ?? []).filter((found) => !data.devices.some((device) => device.name === found.name));
const devices = styled([...data.devices, ...other.map((found) => ({ ...found, about: "of the other plan", emulated: false, nodes: 0 }))]);
const device = new Map(devices.map((found) => [found.name, found]));
const { report, nodes } = data;

document.title = `Plan of ${data.title}`;
at("title").textContent = `Plan of ${data.title}`;
document.body.prepend(patterns(devices));
const { totals } = report;
at("verdict").textContent = whole(data.verdict);
at("summary").textContent = whole(`${report.objective}; ${count(report.parts.length, "part")} of ${count(nodes.length, "node")}.`);
at("program").textContent = `Written by ${data.program}.`;

// the first screen
at("devices-body").append(usage(data, devices));
at("dearest-body").append(dearest(report.parts, device, (part) => choosePart(part)));
at("unlocks-first").append(unlocks(data, device));
at("timeline-order").textContent = data.at_once ? "Predicted, with concurrent devices." : "Predicted, one part after another.";
const width = Math.max(560, at("timeline-chart").clientWidth);
const longest = Math.max(0, ...(data.against?.timeline ?? []).map((span) => span.end_ps));
at("timeline-chart").append(timeline(data.timeline, devices, width, longest));
// made where somebody asks for it: it is long
at("timeline-table").closest("details").addEventListener("toggle", spans, { once: true });
function spans() {
  at("timeline-table").append(
    table(
      null,
      ["what", "device", "from", "to", "takes", "provenance"],
      data.timeline.map((span) => [
        whole(span.label),
        badge(device.get(span.device)),
        time(span.start_ps),
        time(span.end_ps),
        time(span.end_ps - span.start_ps),
        provenance(span.provenance, span.emulated),
      ]),
      [2, 3, 4],
    ),
  );
}

// the other plan
const moved = new Set();
if (data.against) {
  at("against").hidden = false;
  at("filter-moved").closest("label").hidden = false;
  for (const [node, from] of data.against.moved) nodes[node].was = from;
  for (const node of data.against.added) nodes[node].was = null;
  nodes.forEach((node, index) => node.was !== undefined && moved.add(index));
  const [headline, plans] = against(data.against, data);
  at("against-first").hidden = false;
  at("against-first").append(headline);
  at("against-body").append(table(null, ["which", "plan", "objective", "run time", "energy"], plans, [3, 4]));
  at("against-chart").append(timeline(data.against.timeline, devices, width, data.ends_ps));
}

// costs
const times = (cost, launch) => [costTime(cost), time(launch), energy(cost.energy_nj), origin(cost)];
const ends = data.at_once ? [["run time with concurrent devices", time(data.ends_ps)]] : [];
at("costs-body").append(
  table(
    "Totals",
    ["what", "figure"],
    [
      ...ends,
      ["compute", time(totals.compute_ps)],
      ["launches", time(totals.launch_ps)],
      ["transfers", time(totals.transfer_ps)],
      [data.at_once ? "parts one after another" : "time", time(totals.time_ps)],
      ["energy", energy(totals.energy_nj)],
      ["provenance", provenance(totals.provenance, totals.emulated)],
      ["certificate", whole(data.certificate)],
      ...data.comparisons.map((pair) => pair.map(whole)),
    ],
  ),
  table(
    "Parts",
    ["part", "id", "device", "nodes", "time", "launch", "energy", "provenance", "ops"],
    report.parts.map((part) => [
      String(part.part),
      part.id,
      badge(device.get(part.device)),
      String(part.nodes),
      ...times(part.cost, part.launch_ps),
      part.ops.map(([op, many]) => `${many} ${op}`).join(", "),
    ]),
    [0, 3, 4, 5, 6],
  ),
  table(
    "Crossings",
    ["tensor", "from", "to", "size", "mode", "time"],
    report.crossings.map((crossing) => [
      crossing.tensor,
      badge(device.get(crossing.from)),
      badge(device.get(crossing.to)),
      bytes(crossing.bytes),
      crossing.mode,
      time(crossing.time_ps),
    ]),
    [3, 5],
  ),
  table(
    "Devices",
    ["device", "what", "nodes", "launch", "memory"],
    data.devices.map((found, index) => [
      badge(device.get(found.name)),
      found.about,
      String(found.nodes),
      time(found.own_launch_ps),
      bytes(report.memory[index]?.bytes),
    ]),
    [2, 3, 4],
  ),
);
if (data.events.length > 0) {
  at("costs-body").append(element("h3", {}, "Events"), element("ul", {}, data.events.map((words) => element("li", {}, whole(words)))));
}

// front
if (data.front.length > 0) {
  at("front").hidden = false;
  at("front-chart").append(front(data.front));
  at("front-table").append(
    table(
      "Pareto-optimal plans",
      ["plan", "latency", "energy", "provenance"],
      data.front.map((point) => [
        whole(point.chosen ? `${point.words} (this plan)` : point.words),
        time(point.time_ps),
        energy(point.energy_nj),
        provenance(point.provenance, point.emulated),
      ]),
      [1, 2],
    ),
  );
}

// unlocks
at("unlocks-body").append(
  data.unlocks.length > 0
    ? table(
        null,
        ["rank", "op", "device", "nodes refused", "saving", "cost there"],
        data.unlocks.map((unlock, index) => [
          String(index + 1),
          unlock.op,
          badge(device.get(unlock.device)),
          String(unlock.nodes),
          whole(unlock.words),
          unlock.derived ? "derived from other nodes" : "stated",
        ]),
        [0, 3, 4],
      )
    : element("p", {}, "Supporting a refused op would not improve the plan."),
);

// graph, details, nodes
const writers = nodes.map(() => []);
const readers = nodes.map(() => []);
for (const [from, to] of data.edges) {
  readers[from].push(nodes[to]);
  writers[to].push(nodes[from]);
}
let graph = null;
const isOpen = (key) => graph.isOpen(key);
function tell(title, body, focus) {
  at("details-title").textContent = title;
  at("details-body").replaceChildren(body);
  if (focus) at("details").focus();
}
function chooseNode(index, from) {
  const node = nodes[index];
  const key = graph.keyOf(node.part);
  const shown = { device, part: report.parts[node.part], writers: writers[index], readers: readers[index], choose: (next) => chooseNode(next, "details"), key, isOpen };
  const turn = () => {
    turned(key);
    chooseNode(index, "details");
  };
  tell(nameOf(node), details(node, { ...shown, turn }), from !== "graph");
  graph.mark(index, from !== "graph");
}
function choosePart(part) {
  const first = nodes.findIndex((node) => node.part === part);
  chooseBox({ kind: "part", key: graph.keyOf(part), part, times: 1, nodes: [first] }, true);
}
function chooseBox(box, focus) {
  if (box.kind === "node") return chooseNode(box.nodes[0], focus ? "details" : "graph");
  const turn = () => {
    if (turned(box.key)) chooseBox(box, true);
  };
  tell(box.kind === "part" ? `Part ${box.part}` : `Block of part ${box.part}`, folding(box, { device, report, nodes, isOpen, turn, choose: (node) => chooseNode(node, "details") }), focus);
  graph.mark(box.nodes[0], focus);
}
function turned(key) {
  const done = graph.turn(key);
  at("graph-said").textContent = done ? "" : "Too many boxes to show: fold another one first.";
  return done;
}
const rows = list(at("nodes-table"), nodes, device, (index) => chooseNode(index, "table"));
if (nodes.length > 0) graph = draw(at("graph"), data, devices, moved, (box) => chooseBox(box, false));
for (const [id, does] of [["zoom-in", "zoomIn"], ["zoom-out", "zoomOut"], ["zoom-fit", "fit"], ["fold", "fold"], ["unfold", "open"]]) {
  at(id).addEventListener("click", () => graph?.[does]());
}
at("find").addEventListener("input", () => at("found").replaceChildren(...search(nodes, at("find").value, (index) => chooseNode(index, "table"))));

// filter
at("filter-device").append(...data.devices.map((found) => element("option", { value: found.name }, `${device.get(found.name).letter} ${found.label}`)));
const kinds = new Set(nodes.flatMap((node) => node.alternatives.map((found) => found.kind)));
at("filter-reason").append(...[...kinds].sort().map((kind) => element("option", { value: kind }, kind.replaceAll("_", " "))));
function filter() {
  const wanted = {
    text: at("filter-text").value,
    device: at("filter-device").value,
    reason: at("filter-reason").value,
    off: at("filter-off").checked,
    moved: at("filter-moved").checked,
  };
  const kept = nodes.map((node) => passes(node, wanted));
  rows.show(kept);
  graph?.keep(kept);
  at("filter-count").textContent = `${kept.filter(Boolean).length} of ${count(nodes.length, "node")}`;
}
at("filter").addEventListener("input", filter);
at("filter").addEventListener("submit", (event) => event.preventDefault());
at("filter").addEventListener("reset", () => setTimeout(filter));
filter();

at("sections").append(
  ...[...document.querySelectorAll("main > section:not([hidden])")]
    .filter((section) => section.id !== "overview")
    .map((section) => element("li", {}, element("a", { href: `#${section.id}` }, section.querySelector("h2").textContent))),
);
document.documentElement.dataset.ready = "yes";
