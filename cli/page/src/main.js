// Fills the page from the JSON in it.

import { front, timeline } from "./charts.js";
import { patterns, styled } from "./devices.js";
import { badge, element, table } from "./dom.js";
import { bytes, costTime, energy, origin, provenance, time } from "./figures.js";
import { draw } from "./graph.js";
import { details, list, nameOf, passes } from "./nodes.js";

const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const devices = styled(data.devices);
const device = new Map(devices.map((found) => [found.name, found]));
const { report, nodes } = data;

document.title = `Plan of ${data.title}`;
at("title").textContent = `Plan of ${data.title}`;
document.body.prepend(patterns(devices));
const { totals } = report;
at("summary").append(
  `${report.objective}; predicted ${time(totals.time_ps)}, ${energy(totals.energy_nj)} (${provenance(totals.provenance, totals.emulated)}); ` +
    `${report.parts.length} parts of ${nodes.length} nodes; ${data.certificate}.`,
);
at("legend").append(...devices.map((found) => element("li", {}, badge(found), ` ${found.nodes} ${found.nodes === 1 ? "node" : "nodes"}`)));
at("program").textContent = `Written by ${data.program}.`;

// costs
const times = (cost, launch) => [costTime(cost), time(launch), energy(cost.energy_nj), origin(cost)];
at("costs-body").append(
  table(
    "Totals",
    ["what", "figure"],
    [
      ["compute", time(totals.compute_ps)],
      ["launches", time(totals.launch_ps)],
      ["transfers", time(totals.transfer_ps)],
      ["time", time(totals.time_ps)],
      ["energy", energy(totals.energy_nj)],
      ["provenance", provenance(totals.provenance, totals.emulated)],
      ["certificate", data.certificate],
      ...data.comparisons,
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
      part.ops.map(([op, count]) => `${count} ${op}`).join(", "),
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
    ["device", "what", "nodes", "launch", "memory held"],
    devices.map((found, index) => [
      badge(found),
      found.about,
      String(found.nodes),
      time(found.launch_ps),
      bytes(report.memory[index]?.bytes),
    ]),
    [2, 3, 4],
  ),
);
if (data.events.length > 0) {
  at("costs-body").append(element("h3", {}, "Events"), element("ul", {}, data.events.map((words) => element("li", {}, words))));
}

// timeline
at("timeline-order").textContent = data.at_once
  ? "Parts, launches and transfers as predicted, devices working at once."
  : "Parts, launches and transfers as predicted, one after the other.";
at("timeline-chart").append(timeline(data.timeline, devices));
at("timeline-table").append(
  table(
    null,
    ["what", "device", "from", "to", "takes", "provenance"],
    data.timeline.map((span) => [
      span.label,
      badge(device.get(span.device)),
      time(span.start_ps),
      time(span.end_ps),
      time(span.end_ps - span.start_ps),
      provenance(span.provenance, span.emulated),
    ]),
    [2, 3, 4],
  ),
);

// front
if (data.front.length > 0) {
  at("front").hidden = false;
  at("front-chart").append(front(data.front));
  at("front-table").append(
    table(
      "Plans that no other plan beats in both",
      ["plan", "latency", "energy", "provenance"],
      data.front.map((point) => [
        point.chosen ? `${point.words} (this plan)` : point.words,
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
          unlock.words,
          unlock.derived ? "derived from other nodes" : "stated",
        ]),
        [0, 3, 4],
      )
    : element("p", {}, "No op that a device refuses would make the plan better."),
);

// graph, details, nodes
const writers = nodes.map(() => []);
const readers = nodes.map(() => []);
for (const [from, to] of data.edges) {
  readers[from].push(nodes[to]);
  writers[to].push(nodes[from]);
}
let graph = null;
function choose(index, from) {
  const node = nodes[index];
  at("details-title").textContent = nameOf(node);
  at("details-body").replaceChildren(
    details(node, {
      device,
      part: report.parts[node.part],
      writers: writers[index],
      readers: readers[index],
      choose: (other) => choose(other, "details"),
    }),
  );
  graph?.mark(index, from !== "graph");
  if (from === "table" || from === "details") at("details").focus();
}
const rows = list(at("nodes-table"), nodes, device, (index) => choose(index, "table"));
if (nodes.length > 0) graph = draw(at("graph"), data, devices, (index) => choose(index, "graph"));
at("zoom-in").addEventListener("click", () => graph?.zoomIn());
at("zoom-out").addEventListener("click", () => graph?.zoomOut());
at("zoom-fit").addEventListener("click", () => graph?.fit());

// filter
at("filter-device").append(...devices.map((found) => element("option", { value: found.name }, `${found.letter} ${found.name}`)));
const kinds = new Set(nodes.flatMap((node) => node.alternatives.map((other) => other.reason.kind)));
at("filter-reason").append(...[...kinds].sort().map((kind) => element("option", { value: kind }, kind.replaceAll("_", " "))));
function filter() {
  const wanted = {
    text: at("filter-text").value,
    device: at("filter-device").value,
    reason: at("filter-reason").value,
    off: at("filter-off").checked,
  };
  const kept = nodes.map((node) => passes(node, wanted));
  rows.forEach((row, index) => (row.hidden = !kept[index]));
  graph?.keep(kept);
  at("filter-count").textContent = `${kept.filter(Boolean).length} of ${nodes.length} nodes`;
}
at("filter").addEventListener("input", filter);
at("filter").addEventListener("submit", (event) => event.preventDefault());
at("filter").addEventListener("reset", () => setTimeout(filter));
filter();

at("sections").append(
  ...[...document.querySelectorAll("main > section:not([hidden])")].map((section) =>
    element("li", {}, element("a", { href: `#${section.id}` }, section.querySelector("h2").textContent)),
  ),
);
document.documentElement.dataset.ready = "yes";
