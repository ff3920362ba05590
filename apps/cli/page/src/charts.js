// The timeline of devices, the front of latency and energy, and bars of what each device is used for.

import { badge, element } from "./dom.js";
import { count, energy, provenance, time, whole } from "./figures.js";

const SVG = "http://www.w3.org/2000/svg";
// heights of a row of the timeline: the device's name, its bar, what is between two rows
const NAME = 16;
const BAR = 20;
const ROW = NAME + BAR + 8;
const AXIS = 34;

function shape(name, attributes, parent, title) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (title !== undefined) made.appendChild(document.createElementNS(SVG, "title")).textContent = title;
  return parent.appendChild(made);
}

/** The unit in which the largest of some figures is at least one, and its size. */
function unit(most, names) {
  const at = Math.max(0, names.findLastIndex((_, index) => most >= 1000 ** index));
  return [names[at], 1000 ** at];
}

/** Round figures from 0 to the most, at most six of them. */
function ticks(most) {
  const rough = most / 5;
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = ten * [1, 2, 5, 10].find((factor) => factor * ten >= rough);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, index) => Number((index * step).toPrecision(6)));
}

/** A drawing as one image to a screen reader, which has the table beside it. */
function image(label, width, height) {
  const svg = document.createElementNS(SVG, "svg");
  const about = { role: "img", "aria-label": label, "aria-description": "The table below lists the same figures", viewBox: `0 0 ${width} ${height}`, width, height };
  for (const [key, value] of Object.entries(about)) svg.setAttribute(key, value);
  return svg;
}

/** Spans of one device and kind, those that would be too narrow to see drawn as one. */
function merged(spans, narrow) {
  const all = [];
  for (const span of [...spans].sort((a, b) => a.start_ps - b.start_ps)) {
    const last = all.at(-1);
    const joins = last && span.end_ps - span.start_ps < narrow && last.end_ps - last.start_ps < 4 * narrow && span.start_ps - last.end_ps < narrow;
    if (joins) Object.assign(last, { end_ps: Math.max(last.end_ps, span.end_ps), of: last.of + 1 });
    else all.push({ ...span, of: 1 });
  }
  return all;
}

/** What each device does when. */
export function timeline(spans, devices, width, most) {
  const end = Math.max(1, most ?? 0, ...spans.map((span) => span.end_ps));
  const [name, size] = unit(end, ["ps", "ns", "µs", "ms", "s"]);
  const used = devices.filter((found) => spans.some((span) => span.device === found.name));
  const height = ROW * used.length + AXIS;
  const svg = image("Timeline of parts, launches and transfers per device", width, height);
  const x = (ps) => 1 + (ps / end) * (width - 60);
  const foot = ROW * used.length;
  for (const tick of ticks(end / size)) {
    const at = x(tick * size);
    shape("line", { x1: at, x2: at, y1: 0, y2: foot, class: "grid" }, svg);
    shape("text", { x: at, y: foot + 13, class: "tick", "text-anchor": tick === 0 ? "start" : "middle" }, svg).textContent = String(tick);
  }
  shape("text", { x: 1, y: foot + 29, class: "tick" }, svg).textContent = `predicted time in ${name}`;
  used.forEach((device, row) => {
    const top = ROW * row;
    const own = spans.filter((span) => span.device === device.name && span.end_ps > span.start_ps);
    shape("text", { x: 1, y: top + 12, class: "lane" }, svg).textContent = `${device.letter}  ${device.label}${device.emulated ? " (emulated)" : ""}`;
    for (const kind of ["part", "launch", "transfer"]) {
      for (const span of merged(own.filter((one) => one.kind === kind), end / width)) {
        const from = provenance(span.provenance, span.emulated);
        const what = span.of === 1 ? whole(span.label) : `${count(span.of, kind).replace("launchs", "launches")}, the first: ${whole(span.label)}`;
        const title = `${what}\n${time(span.end_ps - span.start_ps)}, ${from}\nfrom ${time(span.start_ps)}`;
        const place = { x: x(span.start_ps), width: Math.max(0.8, x(span.end_ps) - x(span.start_ps)) };
        const box = kind === "transfer" ? { y: top + NAME + 6, height: BAR - 12 } : { y: top + NAME, height: BAR };
        shape("rect", { ...place, ...box, class: kind, fill: kind === "part" ? device.fill : kind === "launch" ? "currentColor" : "none" }, svg, title);
      }
    }
  });
  return svg;
}

/** The Pareto front of latency and energy. */
export function front(points) {
  const [width, height, left, foot] = [720, 320, 70, 44];
  const svg = image("Plans by latency and energy", width, height);
  const [times, energies] = [points.map((point) => point.time_ps), points.map((point) => point.energy_nj)];
  const [name, size] = unit(Math.max(1, ...times), ["ps", "ns", "µs", "ms", "s"]);
  const [other, energySize] = unit(Math.max(1, ...energies), ["nJ", "µJ", "mJ", "J", "kJ"]);
  const [longest, dearest] = [1.05 * Math.max(1, ...times), 1.05 * Math.max(1, ...energies)];
  const x = (ps) => left + (ps / longest) * (width - left - 20);
  const y = (nj) => height - foot - (nj / dearest) * (height - foot - 20);
  for (const tick of ticks(longest / size)) {
    shape("line", { x1: x(tick * size), x2: x(tick * size), y1: 10, y2: height - foot, class: "grid" }, svg);
    shape("text", { x: x(tick * size), y: height - foot + 15, class: "tick", "text-anchor": "middle" }, svg).textContent = String(tick);
  }
  for (const tick of ticks(dearest / energySize)) {
    shape("line", { x1: left, x2: width - 20, y1: y(tick * energySize), y2: y(tick * energySize), class: "grid" }, svg);
    shape("text", { x: left - 6, y: y(tick * energySize) + 4, class: "tick", "text-anchor": "end" }, svg).textContent = String(tick);
  }
  shape("text", { x: width - 20, y: height - 8, class: "tick", "text-anchor": "end" }, svg).textContent = `time of a run in ${name}`;
  shape("text", { x: 4, y: 12, class: "tick" }, svg).textContent = other;
  const sorted = [...points].sort((a, b) => a.time_ps - b.time_ps);
  shape("polyline", { points: sorted.map((point) => `${x(point.time_ps)},${y(point.energy_nj)}`).join(" "), class: "front" }, svg);
  for (const point of sorted) {
    const title = `${point.words}\n${time(point.time_ps)}, ${energy(point.energy_nj)}`;
    shape("circle", { cx: x(point.time_ps), cy: y(point.energy_nj), r: point.chosen ? 8 : 4, class: point.chosen ? "chosen" : "point" }, svg, title);
  }
  return svg;
}

const PARTS = [["compute_ps", "compute"], ["launch_ps", "launch"], ["transfer_ps", "transfer"]];
const busy = (device) => PARTS.reduce((sum, [key]) => sum + device[key], 0);

/** A bar of some pieces, as wide as they are of the most. */
function bar(device, pieces, most, words) {
  return element(
    "span",
    { class: "bar", title: words },
    pieces.map(([name, value]) => {
      // transfers are outlined and launches in the colour of text, as in the timeline
      const fill = name === "transfer" || name === "launch" ? "" : `background:${device.colour}`;
      return value > 0 ? element("span", { class: name, style: `width:${(100 * value) / most}%;${fill}` }) : null;
    }),
  );
}

/** Time and energy per device, as bars with their figures; of two plans, the one before above the one of now. */
export function bars(plans, devices) {
  const isUsed = (found) => found !== undefined && (found.nodes > 0 || busy(found) > 0);
  const used = devices.filter((device) => plans.some(({ usage }) => isUsed(usage.get(device.name))));
  const all = plans.flatMap(({ usage }) => [...usage.values()]);
  const longest = Math.max(1, ...all.map(busy));
  const dearest = Math.max(1, ...all.map((device) => device.energy_nj ?? 0));
  const cells = (device, found) => [
    element("td", { class: "drawn" }, bar(device, PARTS.map(([key, name]) => [name, found[key]]), longest, PARTS.map(([key, name]) => `${name} ${time(found[key])}`).join(", "))),
    element("td", { class: "figure" }, time(busy(found))),
    element("td", { class: "drawn" }, bar(device, [["energy", found.energy_nj ?? 0]], dearest, energy(found.energy_nj))),
    element("td", { class: "figure" }, energy(found.energy_nj)),
    element("td", { class: "figure" }, count(found.nodes, "node")),
  ];
  const several = plans.length > 1;
  const head = [...(several ? ["plan"] : []), "time", null, "energy", null, "nodes"];
  const groups = used.map((device) =>
    element(
      "tbody",
      {},
      element("tr", {}, element("th", { scope: "rowgroup", colspan: head.length }, badge(device))),
      plans.map(({ usage, when }) => {
        const found = usage.get(device.name);
        return element("tr", {}, several ? element("td", {}, when) : null, found ? cells(device, found) : element("td", { colspan: 5 }, "not in this plan"));
      }),
    ),
  );
  return element(
    "table",
    { class: "bars" },
    element("thead", {}, element("tr", {}, head.map((name) => (name ? element("th", { scope: "col", class: name === "nodes" ? "figure" : null }, name) : element("td", {}))))),
    groups,
  );
}
