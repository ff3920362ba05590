// The table of nodes with its filter, and the details of one node.

import { badge, element } from "./dom.js";
import { costTime, count, counterfactual, energy, origin, provenance, time, whole } from "./figures.js";

/** So many rows of the table are made at a time. */
const ROWS = 200;
/** So many nodes that a search finds are listed. */
const FOUND = 8;

/** Whether another device would run a node alone for less than where it is. */
export function isOff(node) {
  const here = node.cost?.time_ps;
  return here !== undefined && node.alternatives.some((other) => other.cost && other.cost.time_ps < here);
}

/** Whether a node passes a filter of text, device, reason, being off its cheapest device and having moved. */
export function passes(node, { text, device, reason, off, moved }) {
  const words = text.trim().toLowerCase();
  return (
    (words === "" || node.name.toLowerCase().includes(words) || node.op.toLowerCase().includes(words)) &&
    (device === "" || node.device === device) &&
    (reason === "" || node.alternatives.some((other) => other.kind === reason)) &&
    (!off || isOff(node)) &&
    (!moved || node.was !== undefined)
  );
}

/** The name of a node, or its number where it has none. */
export const nameOf = (node) => node.name || `node ${node.node}`;

/** What was measured of a node, in words: a step of several nodes has one time, which is that of all of them. */
export function measured(node, device) {
  const steps = node.measured;
  if (!steps) return "no step measured";
  const others = steps.with.length === 0 ? "" : `, in one step with ${steps.with[0]}${steps.with.length > 1 ? ` and ${steps.with.length - 1} more` : ""}`;
  return `${time(1000 * steps.time_ns)}${others} (${provenance("measured", device.emulated)}; ${steps.kernels.join(" + ")})`;
}

/** The label of a node that plain loops compute instead of a kernel. */
const plain = (node) => (node.measured?.is_reference ? element("span", { class: "label" }, "plain loops") : null);

/** The table of nodes: `show` fills it with those that a filter leaves, some at a time. */
export function list(parent, nodes, device, choose) {
  const isMeasured = nodes.some((node) => node.measured);
  const row = (node) => {
    const reasons = node.alternatives.map((other) => element("li", {}, `not ${device.get(other.device).label}: ${other.words}`));
    return element(
      "tr",
      {},
      element("td", { class: "figure" }, String(node.node)),
      element("td", {}, element("button", { type: "button", onclick: () => choose(node.node) }, nameOf(node))),
      element("td", {}, node.op),
      element("td", {}, badge(device.get(node.device)), node.was === undefined ? null : element("span", { class: "was" }, ...before(node, device))),
      element("td", { class: "figure" }, costTime(node.cost)),
      element("td", {}, origin(node.cost)),
      isMeasured ? element("td", {}, measured(node, device.get(node.device)), plain(node)) : null,
      element("td", {}, reasons.length ? element("ul", {}, reasons) : "no other device"),
    );
  };
  const names = ["number", "name", "op", "device", "cost alone", "provenance", ...(isMeasured ? ["measured"] : []), "why not elsewhere"];
  const figures = [0, 4];
  const head = names.map((name, index) => element("th", { scope: "col", class: figures.includes(index) ? "figure" : null }, name));
  const body = element("tbody");
  const more = element("button", { type: "button", onclick: () => grow() });
  parent.append(element("table", {}, element("thead", {}, element("tr", {}, head)), body), more);
  let left = [];
  function grow() {
    body.append(...left.splice(0, ROWS).map(row));
    more.hidden = left.length === 0;
    more.textContent = `Show more: ${count(left.length, "node")} left`;
  }
  return {
    show(kept) {
      left = nodes.filter((_, index) => kept[index]);
      body.replaceChildren();
      grow();
    },
  };
}

/** Where a node was in the plan that this one is compared with. */
const before = (node, device) => (node.was === null ? ["new"] : ["was on ", badge(device.get(node.was))]);

/** Nodes that a search finds by name, op or number, as buttons. */
export function search(nodes, text, choose) {
  const words = text.trim().toLowerCase();
  if (words === "") return [];
  const found = nodes.filter((node) => `${node.name}\n${node.op}`.toLowerCase().includes(words) || String(node.node) === words);
  const shown = found.slice(0, FOUND).map((node) => element("li", {}, element("button", { type: "button", onclick: () => choose(node.node) }, `${node.op} ${nameOf(node)}`)));
  return [...shown, found.length > FOUND ? element("li", {}, `and ${found.length - FOUND} more`) : null, found.length === 0 ? element("li", {}, "no node with that name, op or number") : null].filter(Boolean);
}

/** The details of a part or of a block of nodes that repeats. */
export function folding(box, { device, report, nodes, isOpen, turn, choose }) {
  const part = report.parts[box.part];
  const list = (all) => element("ul", {}, all.map((node) => element("li", {}, element("button", { type: "button", onclick: () => choose(node) }, `${nodes[node].op} ${nameOf(nodes[node])}`), ` ${costTime(nodes[node].cost)}`)));
  const opener = element("button", { type: "button", class: "turn", onclick: turn }, isOpen(box.key) ? "Fold it" : "Open it in the graph");
  const times = box.times > 1 ? element("p", {}, `Repeated ${box.times} times in a row; the figures are for the first.`) : null;
  if (box.kind === "block") {
    return element("div", {}, element("p", {}, `Block of ${count(box.period, "node")} in part ${box.part}, on `, badge(device.get(part.device)), "."), times, opener, list(box.first));
  }
  const own = nodes.filter((node) => node.part === box.part);
  const dearest = [...own].sort((a, b) => (b.cost?.time_ps ?? 0) - (a.cost?.time_ps ?? 0)).slice(0, 10);
  const rows = [
    ["time", `${time(part.cost.time_ps)} (${origin(part.cost)})`],
    ["launch", time(part.launch_ps)],
    ["energy", energy(part.cost.energy_nj)],
    ["ops", part.ops.map(([op, many]) => `${many} ${op}`).join(", ")],
  ];
  return element(
    "div",
    {},
    element("p", {}, `${count(part.nodes, "node")} on `, badge(device.get(part.device)), ` (part ${part.id}).`),
    times,
    opener,
    element("dl", {}, rows.flatMap(([term, value]) => [element("dt", {}, term), element("dd", {}, value)])),
    element("h4", {}, own.length > dearest.length ? `Its ${dearest.length} most expensive nodes` : "Its nodes, most expensive first"),
    list(dearest.map((node) => node.node)),
  );
}

/** The details of a node: where it is, its neighbours, and per device cost, reason and counterfactual. */
export function details(node, { device, part, writers, readers, choose, key, isOpen, turn }) {
  const link = (other) => element("li", {}, element("button", { type: "button", onclick: () => choose(other.node) }, `${other.op} ${nameOf(other)}`));
  const card = (name, cost, words, forced, more = []) =>
    element(
      "li",
      {},
      badge(device.get(name)),
      element(
        "dl",
        {},
        [
          ["cost alone", cost ? `${costTime(cost)}, ${energy(cost.energy_nj)}` : "unknown"],
          ["provenance", origin(cost)],
          ["reason", words],
          ["plan with the node here", forced],
          ...more,
        ].flatMap(([term, value]) => [element("dt", {}, term), element("dd", {}, value)]),
      ),
    );
  const steps = node.measured ? [["measured", [measured(node, device.get(node.device)), plain(node)]]] : [];
  const here = card(node.device, node.cost, "the plan's choice", "as planned", steps);
  const others = node.alternatives.map((other) => card(other.device, other.cost, other.words, counterfactual(other.counterfactual)));
  return element(
    "div",
    {},
    element("p", {}, `Op ${node.op}, node ${node.node}, on `, badge(device.get(node.device)), ` in part ${node.part} (${part.id}).`),
    node.was === undefined ? null : element("p", { class: "was" }, ...before(node, device)),
    element("button", { type: "button", class: "turn", onclick: turn }, isOpen(key) ? "Fold its part" : "Open its part in the graph"),
    element("h4", {}, "By device"),
    element("ul", { class: "cards" }, here, others),
    element("h4", {}, "Reads from"),
    writers.length ? element("ul", {}, writers.map(link)) : element("p", {}, "inputs and constants only"),
    element("h4", {}, "Read by"),
    readers.length ? element("ul", {}, readers.map(link)) : element("p", {}, "outputs only"),
  );
}
