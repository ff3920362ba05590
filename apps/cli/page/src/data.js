// The data of the page: unpacked, and columns made into nodes again.

import { whole } from "./figures.js";

/** The JSON in the page. */
export async function read() {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(stream).json();
  return { ...data, nodes: unpacked(data.nodes, data.devices.map((device) => device.name)) };
}

/** Nodes with their alternatives, of the columns that the program writes (`apps/cli/src/page/nodes.rs`). */
export function unpacked(columns, devices) {
  const texts = columns.texts.map(whole);
  const cost = (on, node) =>
    on.time_ps[node] === null
      ? null
      : { time_ps: on.time_ps[node], energy_nj: on.energy_nj[node], provenance: texts[on.provenance[node]], emulated: on.emulated[node] === 1 };
  const forced = (on, node) =>
    on.forced[node] === null ? null : { words: texts[on.forced[node]], replanned: on.replanned[node] === 1, derived: on.derived[node] === 1 };
  return columns.names.map((name, node) => ({
    node,
    name,
    op: texts[columns.op[node]],
    part: columns.part[node],
    device: devices[columns.device[node]],
    cost: cost(columns.on[columns.device[node]], node),
    alternatives: columns.on.flatMap((on, index) =>
      on.kind[node] === null
        ? []
        : [{ device: devices[index], cost: cost(on, node), kind: texts[on.kind[node]], words: texts[on.words[node]], counterfactual: forced(on, node) }],
    ),
    measured: columns.measured[node] ?? null,
  }));
}
