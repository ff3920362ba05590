// The table of nodes with its filter, and the details of one node.

import { badge, element } from "./dom.js";
import { costTime, counterfactual, energy, origin, provenance, time } from "./figures.js";

/** Whether another device would run a node alone for less than where it is. */
export function isOff(node) {
  const here = node.cost?.time_ps;
  return here !== undefined && node.alternatives.some((other) => other.cost && other.cost.time_ps < here);
}

/** Whether a node passes a filter of text, device, reason and being off its cheapest device. */
export function passes(node, { text, device, reason, off }) {
  const words = text.trim().toLowerCase();
  return (
    (words === "" || node.name.toLowerCase().includes(words) || node.op.toLowerCase().includes(words)) &&
    (device === "" || node.device === device) &&
    (reason === "" || node.alternatives.some((other) => other.reason.kind === reason)) &&
    (!off || isOff(node))
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

/** The label of a node for which plain loops stand in for a kernel. */
const plain = (node) => (node.measured?.is_reference ? element("span", { class: "label" }, "plain loops") : null);

/** The table of all nodes; `choose` is called with the index of one. Gives the rows by index. */
export function list(parent, nodes, device, choose) {
  const isMeasured = nodes.some((node) => node.measured);
  const rows = nodes.map((node) => {
    const reasons = node.alternatives.map((other) => element("li", {}, `not ${other.device}: ${other.words}`));
    return element(
      "tr",
      {},
      element("td", { class: "figure" }, String(node.node)),
      element("td", {}, element("button", { type: "button", onclick: () => choose(node.node) }, nameOf(node))),
      element("td", {}, node.op),
      element("td", {}, badge(device.get(node.device))),
      element("td", { class: "figure" }, costTime(node.cost)),
      element("td", {}, origin(node.cost)),
      isMeasured ? element("td", {}, measured(node, device.get(node.device)), plain(node)) : null,
      element("td", {}, reasons.length ? element("ul", {}, reasons) : "no other device"),
    );
  });
  const names = ["number", "name", "op", "device", "cost alone", "provenance", ...(isMeasured ? ["measured"] : []), "why not elsewhere"];
  const figures = [0, 4];
  const head = names.map((name, index) => element("th", { scope: "col", class: figures.includes(index) ? "figure" : null }, name));
  parent.append(element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows)));
  return rows;
}

/** The details of a node: where it is, its neighbours, and per device cost, reason and counterfactual. */
export function details(node, { device, part, writers, readers, choose }) {
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
          ["the plan with it there", forced],
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
    element("h4", {}, "On each device"),
    element("ul", { class: "cards" }, here, others),
    element("h4", {}, "Reads from"),
    writers.length ? element("ul", {}, writers.map(link)) : element("p", {}, "inputs and constants only"),
    element("h4", {}, "Read by"),
    readers.length ? element("ul", {}, readers.map(link)) : element("p", {}, "outputs only"),
  );
}
