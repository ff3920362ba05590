// A page of a thousand nodes, made up: what a large model's page weighs and how long it takes to open.

import { readFileSync } from "node:fs";

const OPS = ["Conv", "Relu", "Add", "MatMul", "Softmax", "LayerNormalization", "Reshape", "Concat"];
const DEVICES = ["cpu:0", "null:0", "null:1"];

/** The data of a page of so many nodes: a chain with branches, skips and a tensor that many read. */
export function data(count) {
  // the same on every host: a linear congruential generator (Numerical Recipes)
  let state = 7;
  const below = (limit) => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return Math.floor((state / 4294967296) * limit);
  };
  const cost = (device) => ({ time_ps: 1000 * (1 + below(90000)), energy_nj: 10 + below(5000), provenance: "estimated", emulated: device > 0 });
  const edges = [];
  const nodes = [];
  const parts = [];
  let device = 0;
  for (let node = 0; node < count; node += 1) {
    if (node % 29 === 0) {
      device = (device + 1 + below(2)) % 3;
      parts.push({ part: parts.length, id: String(parts.length).padStart(16, "0"), device: DEVICES[device], nodes: 0, ops: [], cost: cost(device), launch_ps: 20_000_000 });
    }
    const part = parts.at(-1);
    part.nodes += 1;
    if (node > 0) edges.push([node % 7 === 3 ? Math.max(0, node - 3) : node - 1, node]);
    if (node > 12 && node % 9 === 0) edges.push([node - 9, node]);
    if (node > 20 && node % 50 === 0) edges.push([2, node]);
    const name = node === 5 ? "</script><img src=x onerror=hit=1>" : `block${Math.floor(node / 9)}/op${node}`;
    nodes.push({
      node,
      name,
      op: OPS[below(OPS.length)],
      part: part.part,
      device: DEVICES[device],
      cost: cost(device),
      // what some devices measure: a step of two nodes, and one of plain loops
      measured: device === 0 ? { time_ns: 1500, kernels: ["conv"], with: node % 2 === 0 ? [`other${node}`, "another"] : [], is_reference: node % 5 === 0 } : null,
      alternatives: DEVICES.filter((_, other) => other !== device).map((other, index) => {
        const refused = (node + index) % 6 === 0;
        return {
          device: other,
          cost: refused ? null : cost(DEVICES.indexOf(other)),
          reason: refused ? { kind: "unsupported", code: 3, words: "rank 5" } : { kind: "dearer", by: 4_000_000, time_ps: 4_000_000, energy_nj: null },
          words: refused ? "unsupported: rank 5 (code 3)" : "dearer: +4.000 µs",
          counterfactual: { by: 4_000_000, words: "+4.000 µs", replanned: true, derived: refused },
        };
      }),
    });
  }
  let now = 0;
  const timeline = parts.map((part) => {
    const start_ps = now;
    now += part.cost.time_ps * part.nodes;
    return { kind: "part", device: part.device, label: `part ${part.part}, ${part.nodes} nodes`, start_ps, end_ps: now, provenance: "estimated", emulated: part.cost.emulated };
  });
  const totals = { compute_ps: now, launch_ps: 0, transfer_ps: 0, time_ps: now, energy_nj: 1_000_000, provenance: "estimated", emulated: true };
  return {
    title: `${count} nodes`,
    program: "a test",
    certificate: "optimal before merging",
    comparisons: [["cheapest per node", "1.200 times as much"]],
    report: { model: "m", objective: "least time", parts, crossings: [], memory: DEVICES.map((name) => ({ device: name, bytes: 1 << 20 })), totals },
    devices: DEVICES.map((name, index) => ({ name, about: "made up", emulated: index > 0, launch_ps: 0, nodes: nodes.filter((node) => node.device === name).length })),
    nodes,
    edges: [...new Set(edges.map(String))].map((pair) => pair.split(",").map(Number)),
    timeline,
    unlocks: [{ op: "Conv", device: "null:1", nodes: 12, saving: 5, words: "5.000 µs", derived: true }],
    events: [],
    front: [1, 2, 3, 4].map((step) => ({ time_ps: step * 1e9, energy_nj: 5e6 / step, words: `plan ${step}`, provenance: "estimated", emulated: true, chosen: step === 2 })),
  };
}

/** The page of some data, as the program fills it. */
export function page(template, value) {
  const json = JSON.stringify(value).replaceAll("<", "\\u003c");
  return readFileSync(template, "utf8").replace("<!--DATA-->", () => json);
}
