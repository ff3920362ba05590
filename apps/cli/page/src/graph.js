// The graph, folded by parts: laid out in layers, zoomed and moved by mouse, touch and keys, one stop of the tab key.

import { coordCenter, coordGreedy, decrossTwoLayer, graphStratify, layeringLongestPath, sugiyama, twolayerAgg } from "d3-dag";
import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";

import { costTime, count, time } from "./figures.js";
import { boxes, folded } from "./folding.js";

const WIDTH = 172;
const HEIGHT = 40;
// So many bends per node is what fine placement still does within a second for a thousand nodes.
const BENDS = 4;
// Between the columns of a folded graph.
const GUTTER = 60;
// How much wider than high a folded graph should be.
const ASPECT = 1.5;
// With no more boxes than this, all parts are open at first.
const FEW = 40;
// No more boxes than this are shown at once: what lays them out takes long for more.
const MOST = 1500;
// Past so many boxes their order in a layer is left as it is.
const ORDERED = 400;

/**
 * Edges between boxes that stand in an order in which they can run, apart in those that are laid out and those that lead
 * too far for that: every edge over several layers bends at each. The layers are those of all edges.
 */
export function near(count, edges) {
  const layer = new Array(count).fill(0);
  const sorted = [...edges].sort((a, b) => a[0] - b[0]);
  for (const [from, to] of sorted) layer[to] = Math.max(layer[to], layer[from] + 1);
  const bends = ([from, to]) => layer[to] - layer[from] - 1;
  const all = edges.reduce((sum, edge) => sum + bends(edge), 0);
  if (all <= BENDS * count) return { kept: edges, far: [], isFine: true };
  const [kept, far] = [[], []];
  let made = 0;
  for (const edge of [...edges].sort((a, b) => bends(a) - bends(b))) {
    made += bends(edge);
    (made <= BENDS * count ? kept : far).push(edge);
  }
  return { kept, far, isFine: false };
}

/**
 * Places of nodes, and points of edges as `{from, to, points}`, folded into columns where the graph is long: `rows` are
 * the heights of nodes before that.
 */
export function layout(count, edges) {
  const { kept, far, isFine } = near(count, edges);
  const placed = layered(count, kept, isFine);
  const straight = (all, nodes) => all.concat(far.map(([from, to]) => ({ from, to, points: [nodes[from], nodes[to]], isFar: true })));
  const rows = placed.nodes.map(([, y]) => Math.round(y));
  const columns = Math.round(Math.sqrt((ASPECT * placed.height) / (placed.width + GUTTER)));
  if (columns < 2) return { ...placed, edges: straight(placed.edges, placed.nodes), rows };
  const step = placed.height / columns;
  const pitch = placed.width + GUTTER;
  const column = (y) => Math.min(columns - 1, Math.floor(y / step));
  const fold = ([x, y]) => [x + column(y) * pitch, y - column(y) * step];
  const bent = placed.edges.map((edge) => {
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
  const nodes = placed.nodes.map(fold);
  return { nodes, edges: straight(bent, nodes), width: columns * pitch - GUTTER, height: step + HEIGHT, rows };
}

/** Places of nodes and points of edges, one layer below the other. */
function layered(count, edges, isFine) {
  if (count === 0) return { nodes: [], edges: [], width: 0, height: 0 };
  const parents = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) parents[to].push(String(from));
  const data = parents.map((parentIds, index) => ({ id: String(index), parentIds }));
  const graph = graphStratify()(data);
  const coord = isFine ? coordGreedy() : coordCenter();
  const { width, height } = sugiyama()
    .layering(layeringLongestPath())
    .decross(count > ORDERED ? () => {} : decrossTwoLayer().order(twolayerAgg()).passes(2))
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

/** How many nodes of a box were on another device before. */
const changed = (box) => (box.nodes.length === 1 ? "moved" : `${box.changed} moved`);

/** What stands in a box: its two lines, and what it is called by who reads it aloud. */
function words(box, data, device) {
  const { nodes, report } = data;
  const part = report.parts[box.part];
  const { letter } = device.get(part.device);
  const times = box.times > 1 ? ` ×${box.times}` : "";
  if (box.kind === "part") return [`${letter} part ${box.part}${times}`, `${count(part.nodes, "node")}, ${time(part.cost.time_ps)}`];
  if (box.kind === "block") return [`${letter} ${box.times} × ${count(box.period, "node")}`, box.first.map((node) => nodes[node].op).join(", ")];
  const node = nodes[box.nodes[0]];
  return [`${letter} ${node.op}${times}`, box.times > 1 ? `first: ${costTime(node.cost)}` : costTime(node.cost)];
}

/**
 * Draws the graph. `choose` is called with a box that is chosen, and `moved` holds the nodes that were on another device
 * in the plan that this one is compared with.
 */
export function draw(svg, data, devices, moved, choose) {
  const { nodes, edges, report } = data;
  const device = new Map(devices.map((found) => [found.name, found]));
  const folds = folded(nodes, report.parts);
  const open = new Set();
  const shown = () => boxes(folds, edges, nodes.length, open);
  // few nodes, or all of them in one part, are shown as they are
  const parts = [...folds.blocks.keys()].map((part) => `part ${part}`);
  // of parts that are alike the first stands for all
  const first = report.parts.map((_, part) => part);
  for (const { start, period, times } of folds.rows) {
    for (let at = 0; at < period * times; at += 1) first[start + at] = start + (at % period);
  }
  parts.forEach((key) => open.add(key));
  let seen = shown();
  if (seen.boxes.length > (parts.length === 1 ? MOST : FEW)) {
    open.clear();
    seen = shown();
  }
  const root = select(svg);
  // a long op ends at its box
  root.append("clipPath").attr("id", "node-text").append("rect").attr("width", WIDTH - 12).attr("height", HEIGHT);
  const scene = root.append("g");
  let placed;
  let boxOf;
  let readers;
  let writers;
  let layers;
  let current = 0;
  let chosen = null;
  let kept = null;

  const zoomed = zoom()
    .scaleExtent([0.02, 4])
    .on("zoom", (event) => scene.attr("transform", event.transform));
  root.call(zoomed).on("dblclick.zoom", null);
  const size = () => [svg.clientWidth || 800, svg.clientHeight || 600];
  const by = (factor) => root.call(zoomed.scaleBy, factor);
  const fit = () => {
    const [width, height] = size();
    const scale = Math.min(1.2, 0.94 * Math.min(width / (placed.width || 1), height / (placed.height || 1)));
    const left = (width - placed.width * scale) / 2;
    root.call(zoomed.transform, zoomIdentity.translate(left, (height - placed.height * scale) / 2).scale(scale));
  };
  // the top of the graph at a size that can be read
  const start = () => {
    const [width, height] = size();
    const all = Math.min(width / (placed.width || 1), height / (placed.height || 1));
    if (all >= 0.45) return fit();
    const [x] = placed.nodes[0] ?? [0];
    root.call(zoomed.transform, zoomIdentity.translate(Math.min(width / 2, 0.8 * WIDTH) - x * 0.8, 24).scale(0.8));
  };
  const show = (index) => root.call(zoomed.translateTo, ...placed.nodes[index]);

  // one box is the stop of the tab key; arrows go along edges and within a layer
  const stop = (index) => {
    boxOf[current]?.setAttribute("tabindex", -1);
    current = index;
    boxOf[current]?.setAttribute("tabindex", 0);
  };
  const beside = (index, step) => {
    const row = layers.get(placed.rows[index]);
    return row[row.indexOf(index) + step];
  };
  const visit = (index) => {
    if (index === undefined) return;
    stop(index);
    show(index);
    boxOf[index].focus({ preventScroll: true });
  };
  const is = (index) => {
    boxOf[chosen]?.classList.remove("chosen");
    chosen = index;
    boxOf[index]?.classList.add("chosen");
  };
  const dim = () => boxOf.forEach((box, index) => box.classList.toggle("out", kept !== null && !seen.boxes[index].nodes.some((node) => kept[node])));

  function paint() {
    placed = layout(seen.boxes.length, seen.edges);
    readers = seen.boxes.map(() => []);
    writers = seen.boxes.map(() => []);
    for (const [from, to] of seen.edges) {
      readers[from].push(to);
      writers[to].push(from);
    }
    layers = new Map();
    placed.rows.forEach((row, index) => {
      if (!layers.has(row)) layers.set(row, []);
      layers.get(row).push(index);
    });
    for (const row of layers.values()) row.sort((a, b) => placed.nodes[a][0] - placed.nodes[b][0]);
    const on = (box) => device.get(report.parts[box.part].device);
    scene.selectAll("*").remove();
    scene
      .append("g")
      .attr("aria-hidden", "true")
      .selectAll("path")
      .data(placed.edges)
      .join("path")
      .attr("class", (edge) => (on(seen.boxes[edge.from]) === on(seen.boxes[edge.to]) ? "edge" : "edge crossing") + (edge.isFar ? " far" : ""))
      .attr("d", (edge) => `M${edge.points.map((point) => point.map(Math.round).join(",")).join("L")}`);
    const all = scene
      .append("g")
      .selectAll("g")
      .data(seen.boxes.map((box) => ({ ...box, words: words(box, data, device), changed: box.nodes.filter((node) => moved.has(node)).length })))
      .join("g")
      .attr("class", (box) => `node is-${box.kind}${box.changed ? " moved" : ""}`)
      .attr("role", "button")
      .attr("tabindex", -1)
      .attr("aria-label", (box) => {
        const what = box.kind === "node" ? nodes[box.nodes[0]].name || box.nodes[0] : "";
        return `${box.words.join(" ")} ${box.changed ? changed(box) : ""} ${what} on ${on(box).label}`;
      })
      .attr("transform", (_, index) => `translate(${placed.nodes[index][0] - WIDTH / 2},${placed.nodes[index][1] - HEIGHT / 2})`);
    // what stands for several lies on them
    const frame = (where, shift) => where.append("rect").attr("x", shift).attr("y", -shift).attr("width", WIDTH).attr("height", HEIGHT).attr("rx", 4);
    frame(all.filter((box) => box.times > 1), 4).attr("class", "under").attr("fill", (box) => on(box).colour);
    frame(all, 0).attr("class", "face").attr("fill", (box) => on(box).fill);
    all
      .append("rect")
      .attr("x", 3)
      .attr("y", 3)
      .attr("width", WIDTH - 6)
      .attr("height", HEIGHT - 6)
      .attr("rx", 3)
      .style("stroke", "none")
      .attr("fill", (box) => on(box).colour);
    const line = (index, y) =>
      all
        .append("text")
        .attr("x", 8)
        .attr("y", y)
        .attr("class", index === 0 ? "name" : "more")
        .style("fill", (box) => on(box).ink)
        .attr("clip-path", "url(#node-text)")
        .text((box) => `${box.words[index]} `);
    line(0, 17);
    line(1, 32);
    all
      .filter((box) => box.changed > 0)
      .append("text")
      .attr("x", WIDTH - 6)
      .attr("y", -4)
      .attr("text-anchor", "end")
      .attr("class", "change")
      .text(changed);
    boxOf = all.nodes();
    all.on("click", (_, box) => {
      stop(boxOf.findIndex((found) => found.__data__ === box));
      choose(box);
    });
    all.on("dblclick", (_, box) => (box.kind === "node" ? undefined : turn(box.key)));
    chosen = null;
    current = 0;
    stop(0);
    dim();
  }

  /** Opens or folds a part or a block, and says whether that was done: too many boxes are not shown. */
  function turn(key) {
    const was = open.has(key);
    if (was) open.delete(key);
    else open.add(key);
    const next = shown();
    if (next.boxes.length > MOST) {
      open.delete(key);
      return false;
    }
    seen = next;
    paint();
    start();
    const found = seen.boxes.findIndex((box) => box.key === key || (box.part === Number(key.match(/\d+/)[0]) && box.kind !== "part"));
    if (found >= 0) {
      stop(found);
      show(found);
    }
    return true;
  }

  root.on("keydown", (event) => {
    const to = {
      ArrowDown: () => visit(readers[current][0] ?? (current + 1 < boxOf.length ? current + 1 : undefined)),
      ArrowUp: () => visit(writers[current][0] ?? (current > 0 ? current - 1 : undefined)),
      ArrowLeft: () => visit(beside(current, -1)),
      ArrowRight: () => visit(beside(current, 1)),
      Home: () => visit(0),
      End: () => visit(boxOf.length - 1),
      Enter: () => choose(seen.boxes[current]),
      " ": () => choose(seen.boxes[current]),
      "+": () => by(1.4),
      "=": () => by(1.4),
      "-": () => by(1 / 1.4),
      0: fit,
    }[event.key];
    if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    to();
  });
  paint();
  start();
  return {
    zoomIn: () => by(1.4),
    zoomOut: () => by(1 / 1.4),
    fit,
    turn,
    isOpen: (key) => open.has(key),
    keyOf: (part) => `part ${first[part]}`,
    /** Folds everything. */
    fold() {
      open.clear();
      seen = shown();
      paint();
      start();
    },
    /** Opens parts in their order, as long as not too many boxes are seen. */
    open() {
      for (const key of parts) {
        open.add(key);
        if (shown().boxes.length > MOST) {
          open.delete(key);
          break;
        }
      }
      seen = shown();
      paint();
      start();
    },
    /** Marks the box that a node is in, and brings it into view where asked. */
    mark(node, bring) {
      const index = seen.boxOf[node];
      is(index);
      if (bring) {
        stop(index);
        show(index);
      }
    },
    /** Dims what a filter leaves out. */
    keep(found) {
      kept = found;
      dim();
    },
  };
}
