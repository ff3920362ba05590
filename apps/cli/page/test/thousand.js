// A page of a thousand or of ten thousand nodes, made up: what a large model's page weighs and how long it takes to open.

import { readFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";

import { unpacked } from "../src/data.js";

const OPS = ["Conv", "Relu", "Add", "MatMul", "Softmax", "LayerNormalization", "Reshape", "Concat"];
const DEVICES = ["cpu:0", "null:0", "null:1"];

/**
 * The data of a page of so many nodes: a chain with branches, skips and a tensor that many read. No two costs are alike,
 * so that it packs worse than what a model gives.
 */
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
          kind: refused ? "unsupported" : "dearer",
          words: refused ? "unsupported: rank 5 (code 3)" : `dearer: +${below(9)}.${100 + below(900)} µs`,
          counterfactual: { words: `+${below(9)}.${100 + below(900)} µs`, replanned: true, derived: refused },
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
  const usage = (name) => {
    const own = timeline.filter((span) => span.device === name);
    return {
      name,
      label: `made up (${name})`,
      nodes: nodes.filter((node) => node.device === name).length,
      compute_ps: own.reduce((sum, span) => sum + span.end_ps - span.start_ps, 0),
      launch_ps: 0,
      transfer_ps: 0,
      energy_nj: 500_000,
    };
  };
  return {
    title: `${count} nodes`,
    program: "a test",
    verdict: "A run takes 1.000 ms and 1.000 mJ (estimated, emulated); optimal before merging.",
    certificate: "optimal before merging",
    comparisons: [["cheapest per node", "1.200 times as much time"]],
    limits: [],
    report: { model: "m", objective: "least time", parts, crossings: [], memory: DEVICES.map((name) => ({ device: name, bytes: 1 << 20 })), totals },
    devices: DEVICES.map((name, index) => ({ ...usage(name), about: "made up", emulated: index > 0, own_launch_ps: 0 })),
    nodes,
    edges: [...new Set(edges.map(String))].map((pair) => pair.split(",").map(Number)),
    timeline,
    at_once: false,
    ends_ps: now,
    unlocks: [{ op: "Conv", device: "null:1", nodes: 12, saving: 5, words: "5.000 µs", derived: true }],
    events: [],
    front: [1, 2, 3, 4].map((step) => ({ time_ps: step * 1e9, energy_nj: 5e6 / step, words: `plan ${step}`, provenance: "estimated", emulated: true, chosen: step === 2 })),
    against: null,
  };
}

/** Nodes as the columns that the program writes. */
function columns(nodes, devices) {
  const [texts, places] = [[], new Map()];
  const place = (text) => {
    if (!places.has(text)) places.set(text, texts.push(text) - 1);
    return places.get(text);
  };
  const on = devices.map((device) => {
    const own = nodes.map((node) => node.alternatives.find((other) => other.device === device));
    const costs = nodes.map((node, index) => (node.device === device ? node.cost : own[index]?.cost) ?? null);
    const flag = (found) => (found ? 1 : 0);
    return {
      time_ps: costs.map((cost) => cost?.time_ps ?? null),
      energy_nj: costs.map((cost) => cost?.energy_nj ?? null),
      provenance: costs.map((cost) => (cost ? place(cost.provenance) : null)),
      emulated: costs.map((cost) => flag(cost?.emulated)),
      kind: own.map((other) => (other ? place(other.kind) : null)),
      words: own.map((other) => (other ? place(other.words) : null)),
      forced: own.map((other) => (other?.counterfactual ? place(other.counterfactual.words) : null)),
      replanned: own.map((other) => flag(other?.counterfactual?.replanned)),
      derived: own.map((other) => flag(other?.counterfactual?.derived)),
    };
  });
  return {
    names: nodes.map((node) => node.name),
    texts,
    op: nodes.map((node) => place(node.op)),
    part: nodes.map((node) => node.part),
    device: nodes.map((node) => devices.indexOf(node.device)),
    on,
    measured: nodes.map((node) => node.measured),
  };
}

/** The page of some data, as the program fills it. */
export function page(template, value) {
  const packed = { ...value, nodes: columns(value.nodes, value.devices.map((device) => device.name)) };
  const text = gzipSync(JSON.stringify(packed), { level: 9 }).toString("base64");
  return readFileSync(template, "utf8").replace("<!--DATA-->", () => text);
}

/** The data of a page that the program has filled. */
export function read(file) {
  const packed = readFileSync(file, "utf8").match(/id="data">(.*?)<\/script>/s)[1];
  const data = JSON.parse(gunzipSync(Buffer.from(packed, "base64")));
  return { ...data, nodes: unpacked(data.nodes, data.devices.map((device) => device.name)) };
}
