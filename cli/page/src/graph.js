// The graph: laid out in layers, zoomed and moved by mouse, touch and keys, one stop of the tab key.

import { coordCenter, coordGreedy, decrossTwoLayer, graphStratify, layeringLongestPath, sugiyama, twolayerAgg } from "d3-dag";
import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";

const WIDTH = 132;
const HEIGHT = 26;
// So many bends per node is what fine placement still does within a second for a thousand nodes.
const BENDS = 4;
// Between the columns of a folded graph.
const GUTTER = 60;
// How much wider than high a folded graph should be.
const ASPECT = 1.5;

/** Layers of nodes that stand in an order in which they can run, and how many bends edges over several layers make. */
export function bends(count, edges) {
  const layer = new Array(count).fill(0);
  const sorted = [...edges].sort((a, b) => a[0] - b[0]);
  for (const [from, to] of sorted) layer[to] = Math.max(layer[to], layer[from] + 1);
  return edges.reduce((sum, [from, to]) => sum + layer[to] - layer[from] - 1, 0);
}

/**
 * Places of nodes, and points of edges as `{from, to, points}`, folded into columns where the graph is long: `rows` are
 * the heights of nodes before that.
 */
export function layout(count, edges) {
  const placed = layered(count, edges);
  const rows = placed.nodes.map(([, y]) => Math.round(y));
  const columns = Math.round(Math.sqrt((ASPECT * placed.height) / (placed.width + GUTTER)));
  if (columns < 2) return { ...placed, rows };
  const step = placed.height / columns;
  const pitch = placed.width + GUTTER;
  const column = (y) => Math.min(columns - 1, Math.floor(y / step));
  const fold = ([x, y]) => [x + column(y) * pitch, y - column(y) * step];
  const folded = placed.edges.map((edge) => {
    const points = [];
    edge.points.forEach((point, index) => {
      const before = edge.points[index - 1];
      // from the foot of one column through the gutter to the head of the next
      for (let at = before ? column(before[1]) : Infinity; at < column(point[1]); at += 1) {
        const gutter = (at + 1) * pitch - GUTTER / 2;
        points.push([points.at(-1)[0], step + 8], [gutter, step + 8], [gutter, -16], [fold(point)[0] - (column(point[1]) - at - 1) * pitch, -16]);
      }
      points.push(fold(point));
    });
    return { ...edge, points };
  });
  return { nodes: placed.nodes.map(fold), edges: folded, width: columns * pitch - GUTTER, height: step + HEIGHT, rows };
}

/** Places of nodes and points of edges, one layer below the other. */
function layered(count, edges) {
  if (count === 0) return { nodes: [], edges: [], width: 0, height: 0 };
  const parents = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) parents[to].push(String(from));
  const data = parents.map((parentIds, index) => ({ id: String(index), parentIds }));
  const graph = graphStratify()(data);
  const coord = bends(count, edges) <= BENDS * count ? coordGreedy() : coordCenter();
  const { width, height } = sugiyama()
    .layering(layeringLongestPath())
    .decross(decrossTwoLayer().order(twolayerAgg()).passes(2))
    .coord(coord)
    .nodeSize([WIDTH, HEIGHT])
    .gap([14, 22])(graph);
  const nodes = new Array(count);
  for (const node of graph.nodes()) nodes[Number(node.data.id)] = [node.x, node.y];
  const lines = [...graph.links()].map((link) => ({
    from: Number(link.source.data.id),
    to: Number(link.target.data.id),
    points: link.points,
  }));
  return { nodes, edges: lines, width, height };
}

/** Draws the graph; `choose` is called with the index of a node that is chosen. */
export function draw(svg, data, devices, choose) {
  const { nodes, edges } = data;
  const placed = layout(nodes.length, edges);
  const device = new Map(devices.map((found) => [found.name, found]));
  const root = select(svg);
  // a long op ends at its box
  root.append("clipPath").attr("id", "node-text").append("rect").attr("width", WIDTH - 4).attr("height", HEIGHT);
  const scene = root.append("g");
  scene
    .append("g")
    .attr("aria-hidden", "true")
    .selectAll("path")
    .data(placed.edges)
    .join("path")
    .attr("class", (edge) => (nodes[edge.from].device === nodes[edge.to].device ? "edge" : "edge crossing"))
    .attr("d", (edge) => `M${edge.points.map((point) => point.map(Math.round).join(",")).join("L")}`);
  const boxes = scene
    .append("g")
    .selectAll("g")
    .data(nodes)
    .join("g")
    .attr("class", "node")
    .attr("role", "button")
    .attr("tabindex", -1)
    .attr("aria-label", (node) => `${device.get(node.device).letter} ${node.op} ${node.name || node.node}, on ${node.device}`)
    .attr("transform", (_, index) => `translate(${placed.nodes[index][0] - WIDTH / 2},${placed.nodes[index][1] - HEIGHT / 2})`);
  boxes.append("rect").attr("width", WIDTH).attr("height", HEIGHT).attr("rx", 4).attr("fill", (node) => device.get(node.device).fill);
  boxes
    .append("rect")
    .attr("x", 3)
    .attr("y", 4)
    .attr("width", WIDTH - 6)
    .attr("height", HEIGHT - 8)
    .attr("rx", 3)
    .style("stroke", "none")
    .attr("fill", (node) => device.get(node.device).colour);
  boxes
    .append("text")
    .attr("x", 8)
    .attr("y", HEIGHT / 2 + 4)
    .style("fill", (node) => device.get(node.device).ink)
    .attr("clip-path", "url(#node-text)")
    .text((node) => `${device.get(node.device).letter} ${node.op}`);
  const boxOf = boxes.nodes();

  const zoomed = zoom()
    .scaleExtent([0.02, 4])
    .on("zoom", (event) => scene.attr("transform", event.transform));
  root.call(zoomed).on("dblclick.zoom", null);
  const size = () => [svg.clientWidth || 800, svg.clientHeight || 600];
  const by = (factor) => root.call(zoomed.scaleBy, factor);
  const fit = () => {
    const [width, height] = size();
    const scale = Math.min(1.2, 0.96 * Math.min(width / (placed.width || 1), height / (placed.height || 1)));
    const left = (width - placed.width * scale) / 2;
    root.call(zoomed.transform, zoomIdentity.translate(left, (height - placed.height * scale) / 2).scale(scale));
  };
  // the top of the graph at a size that can be read
  const start = () => {
    const [width, height] = size();
    const all = Math.min(width / (placed.width || 1), height / (placed.height || 1));
    if (all >= 0.5) return fit();
    const [x] = placed.nodes[0] ?? [0];
    root.call(zoomed.transform, zoomIdentity.translate(width / 2 - x * 0.8, 16).scale(0.8));
  };
  const show = (index) => {
    const [x, y] = placed.nodes[index];
    root.call(zoomed.translateTo, x, y);
  };

  // one node is the stop of the tab key; arrows go along edges and within a layer
  const readers = Array.from({ length: nodes.length }, () => []);
  const writers = Array.from({ length: nodes.length }, () => []);
  for (const [from, to] of edges) {
    readers[from].push(to);
    writers[to].push(from);
  }
  const layers = new Map();
  placed.rows.forEach((row, index) => {
    if (!layers.has(row)) layers.set(row, []);
    layers.get(row).push(index);
  });
  for (const row of layers.values()) row.sort((a, b) => placed.nodes[a][0] - placed.nodes[b][0]);
  const beside = (index, step) => {
    const row = layers.get(placed.rows[index]);
    return row[row.indexOf(index) + step];
  };
  let current = 0;
  const stop = (index) => {
    boxOf[current]?.setAttribute("tabindex", -1);
    current = index;
    boxOf[current]?.setAttribute("tabindex", 0);
  };
  const visit = (index) => {
    if (index === undefined) return;
    stop(index);
    show(index);
    boxOf[index].focus({ preventScroll: true });
  };
  stop(0);
  root.on("keydown", (event) => {
    const to = {
      ArrowDown: () => visit(readers[current][0] ?? (current + 1 < nodes.length ? current + 1 : undefined)),
      ArrowUp: () => visit(writers[current][0] ?? (current > 0 ? current - 1 : undefined)),
      ArrowLeft: () => visit(beside(current, -1)),
      ArrowRight: () => visit(beside(current, 1)),
      Home: () => visit(0),
      End: () => visit(nodes.length - 1),
      Enter: () => choose(current),
      " ": () => choose(current),
      "+": () => by(1.4),
      "=": () => by(1.4),
      "-": () => by(1 / 1.4),
      0: fit,
    }[event.key];
    if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    to();
  });
  boxes.on("click", (_, node) => {
    stop(node.node);
    choose(node.node);
  });
  start();
  let chosen = null;
  return {
    zoomIn: () => by(1.4),
    zoomOut: () => by(1 / 1.4),
    fit,
    /** Marks a node as the one in the details, and brings it into view where asked. */
    mark(index, bring) {
      boxOf[chosen]?.classList.remove("chosen");
      chosen = index;
      boxOf[index].classList.add("chosen");
      if (bring) {
        stop(index);
        show(index);
      }
    },
    /** Dims the nodes that a filter leaves out. */
    keep(kept) {
      boxOf.forEach((box, index) => box.classList.toggle("out", !kept[index]));
    },
  };
}
